import SimpCore

/// One direction of a TCP connection: every byte, in order, cut into reads at random places; now and then nothing
/// passes for a while, as when TCP waits for its own retransmission.
final class StreamLink {
  private let delay: Interval
  private let stalls: [Range<Instant>]
  private var random: SeededRandom
  private var lastArrival = Instant(nanoseconds: 0)
  private(set) var bytesUnderWay = 0
  private(set) var bytesCarried = 0
  private(set) var stalledReads = 0

  /// Bytes that a socket takes before it is full.
  static let capacity = 256 << 10

  init(delay: Interval, stalls: [Range<Instant>], random: SeededRandom) {
    self.delay = delay
    self.stalls = stalls
    self.random = random
  }

  var room: Int { max(0, Self.capacity - bytesUnderWay) }

  struct Read {
    var arrival: Instant
    var bytes: [UInt8]
  }

  func carry(_ bytes: [UInt8], now: Instant) -> [Read] {
    bytesUnderWay += bytes.count
    bytesCarried += bytes.count
    var reads: [Read] = []
    var rest = bytes[...]
    while !rest.isEmpty {
      // Mostly one read; else a cut anywhere, at times inside a header.
      let count = random.chance(0.7) ? rest.count : Int(random.next() % UInt64(rest.count)) + 1
      reads.append(Read(arrival: arrival(now: now), bytes: Array(rest.prefix(count))))
      rest = rest.dropFirst(count)
    }
    return reads
  }

  /// When something that leaves now is there; never before what left earlier.
  func arrival(now: Instant) -> Instant {
    var arrival = max(now + delay, lastArrival)
    if let stall = stalls.first(where: { $0.contains(arrival) }) {
      arrival = stall.upperBound
      stalledReads += 1
    }
    lastArrival = arrival
    return arrival
  }

  func delivered(_ count: Int) { bytesUnderWay -= count }
}
