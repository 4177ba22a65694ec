internal import Glibc
internal import SimpCore

/// CLOCK_MONOTONIC, which every thread of the process reads alike: sender and recipient need no synchronised clocks.
enum Clock {
  static var now: Instant {
    var time = timespec()
    // SAFETY: fills a local structure.
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return Instant(nanoseconds: UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
  }

  /// Sleeps until `instant`, on the calling thread; at once when it is past. Absolute, so that no error adds up.
  static func sleep(until instant: Instant) {
    var time = timespec()
    time.tv_sec = Int(instant.nanoseconds / 1_000_000_000)
    time.tv_nsec = Int(instant.nanoseconds % 1_000_000_000)
    // SAFETY: reads a local structure.
    while unsafe clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nil) == EINTR {}
  }
}
