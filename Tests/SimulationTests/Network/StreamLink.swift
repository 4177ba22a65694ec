import SimpCore

/// What one direction of TCP does to bytes: it keeps them and their order, and may be slow about it.
struct StreamConditions: Sendable {
  /// nil: as the datagrams of that direction.
  var delay: Interval?
  /// Bytes a second; 0: any number.
  var bytesPerSecond = 0
  /// Chance that a read waits up to `hiccup`, and all behind it with it, as when TCP sends a segment again.
  var hiccups = 0.0
  var hiccup = Interval.milliseconds(400)
  /// When nothing arrives.
  var stalls: [Range<Instant>] = []
}

/// What one direction of TCP did.
struct StreamCounters: Hashable, Sendable {
  var reads = 0
  var bytes = 0
  /// Reads that waited for the end of a stall, for a hiccup, for the bytes before them, for a receiver that did not run.
  var stalled = 0
  var hiccups = 0
  var queued = 0
  var sleptOver = 0

  static func += (left: inout StreamCounters, right: StreamCounters) {
    left.reads += right.reads
    left.bytes += right.bytes
    left.stalled += right.stalled
    left.hiccups += right.hiccups
    left.queued += right.queued
    left.sleptOver += right.sleptOver
  }

  var text: String {
    let rare = [("stalled", stalled), ("hiccups", hiccups), ("queued", queued), ("slept over", sleptOver)]
      .filter { $0.1 > 0 }.map { " \($0.0) \($0.1)" }.joined()
    return "TCP reads \(reads) bytes \(bytes)\(rare)"
  }
}

/// One direction of a TCP connection: every byte, in order, cut into reads at random places.
final class StreamLink {
  private var conditions: StreamConditions
  private let delay: Interval
  /// When whoever receives does not run.
  private let receiverSleeps: [Range<Instant>]
  private var random: SeededRandom
  private var lastArrival = Instant(nanoseconds: 0)
  private var free = Instant(nanoseconds: 0)
  private(set) var bytesUnderWay = 0
  private(set) var counters = StreamCounters()

  /// Bytes that a socket takes before it is full.
  static let capacity = 256 << 10

  init(_ conditions: StreamConditions, delay: Interval, receiverSleeps: [Range<Instant>], random: SeededRandom) {
    self.conditions = conditions
    self.delay = conditions.delay ?? delay
    self.receiverSleeps = receiverSleeps
    self.random = random
  }

  var room: Int { max(0, Self.capacity - bytesUnderWay) }

  /// The network is well from now on.
  func heal() { conditions = StreamConditions() }

  struct Read {
    var arrival: Instant
    var bytes: [UInt8]
  }

  func carry(_ bytes: [UInt8], now: Instant) -> [Read] {
    bytesUnderWay += bytes.count
    counters.bytes += bytes.count
    var reads: [Read] = []
    var rest = bytes[...]
    while !rest.isEmpty {
      // Mostly one read; else a cut anywhere, at times inside a header.
      let count = random.chance(0.7) ? rest.count : Int(random.next() % UInt64(rest.count)) + 1
      reads.append(Read(arrival: arrival(count, now: now), bytes: Array(rest.prefix(count))))
      rest = rest.dropFirst(count)
    }
    return reads
  }

  /// When something that leaves now is there; never before what left earlier.
  func arrival(_ bytes: Int = 0, now: Instant) -> Instant {
    counters.reads += 1
    var arrival = departure(bytes, now: now) + delay
    if random.chance(conditions.hiccups) {
      counters.hiccups += 1
      arrival = arrival + random.interval(upTo: conditions.hiccup)
    }
    arrival = max(arrival, lastArrival)
    if let end = conditions.stalls.end(from: arrival) {
      arrival = end
      counters.stalled += 1
    }
    if let end = receiverSleeps.end(from: arrival) {
      arrival = end
      counters.sleptOver += 1
    }
    lastArrival = arrival
    return arrival
  }

  private func departure(_ bytes: Int, now: Instant) -> Instant {
    guard conditions.bytesPerSecond > 0 else { return max(now, free) }
    if free > now { counters.queued += 1 }
    free = max(free, now) + Interval(nanoseconds: Int64(bytes) * 1_000_000_000 / Int64(conditions.bytesPerSecond))
    return free
  }

  func delivered(_ count: Int) { bytesUnderWay -= count }
}

extension [Range<Instant>] {
  /// When the spans that hold an instant are over, be it that one begins before another ended; nil when none holds it.
  func end(from instant: Instant) -> Instant? {
    var end: Instant?
    while let span = first(where: { $0.contains(end ?? instant) }) { end = span.upperBound }
    return end
  }
}
