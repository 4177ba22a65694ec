internal import SimpCore
internal import SimpIO

/// When each message of an open loop is due: message `k` of all goes out at `start + k / rate`, by pair `k mod pairs`.
/// The times do not depend on how the server fares; that is what makes the latencies honest.
struct Schedule: Sendable {
  var start: Instant
  var rate: Double
  var pairs: Int

  /// When message `index` (from 0) of pair `pair` is due.
  func due(_ index: UInt64, pair: Int) -> Instant {
    let position = Double(index) * Double(pairs) + Double(pair)
    return start + Interval(nanoseconds: Int64(position * 1e9 / rate))
  }

  /// How many messages are due before `end`.
  func count(before end: Instant) -> UInt64 {
    guard end > start else { return 0 }
    return UInt64((Double((end - start).nanoseconds) * rate / 1e9).rounded(.up))
  }
}

/// Sends by a schedule, or keeps closed loops going, on a thread of its own that sleeps to absolute times.
final class Pacer: Sendable {
  private let pairs: [Pair]
  private let thread: EventLoop
  private let isStopped = Locked(false)

  /// Between two looks at the schedule: wake-ups cost as much as sending some messages.
  private static let shortestSleep = Interval.microseconds(100)
  private static let longestSleep = Interval.milliseconds(10)

  init(_ pairs: [Pair]) throws(IOError) {
    self.pairs = pairs
    thread = try EventLoop()
    thread.startThread(name: "pacer")
  }

  /// Has it end soon.
  func stop() { isStopped.withLock { $0 = true } }

  /// Sends what is due until `end`, or until stopped.
  ///
  /// - Returns: how many messages were due and could not be handed over.
  func run(_ schedule: Schedule, until end: Instant) async -> UInt64 {
    await onThread { [self] in
      var next = [UInt64](repeating: 0, count: pairs.count)
      while !isStopped.withLock({ $0 }) {
        let now = min(Clock.now, end)
        var wake = now + Self.longestSleep
        for (number, pair) in pairs.enumerated() {
          var due = schedule.due(next[number], pair: number)
          while due <= now, due < end, pair.post(due: due) {
            next[number] += 1
            due = schedule.due(next[number], pair: number)
          }
          wake = min(wake, due)
        }
        if now == end { break }
        Clock.sleep(until: min(end, max(wake, Clock.now + Self.shortestSleep)))
      }
      let due = schedule.count(before: min(Clock.now, end))
      let sent = next.reduce(0, +)
      return due - min(due, sent)
    }
  }

  /// Looks after closed loops until `end`, or until stopped: where the outbox was full no arrival may be left to go on.
  func keepUp(until end: Instant) async {
    _ = await onThread { [self] in
      while !isStopped.withLock({ $0 }), Clock.now < end {
        for pair in pairs { pair.topUp() }
        Clock.sleep(until: min(end, Clock.now + Self.longestSleep))
      }
      for pair in pairs { pair.endClosedLoop() }
      return 0
    }
  }

  func close() { thread.close() }

  private func onThread(_ body: @escaping @Sendable () -> UInt64) async -> UInt64 {
    await withCheckedContinuation { continuation in
      thread.execute { continuation.resume(returning: body()) }
    }
  }
}
