@testable import SimpCore

/// One direction of the datagram path of one client.
final class DatagramLink {
  var conditions: LinkConditions
  /// When whoever receives does not run.
  var receiverSleeps: [Range<Instant>] = []
  private(set) var counters = LinkCounters()
  private var random: SeededRandom
  private var isInBurst = false
  private var newestDelivered = -1
  /// When each datagram of the queue will have left.
  private var departures = Queue<Instant>()
  private var free = Instant(nanoseconds: 0)
  private var asleep = (until: Instant.never, waiting: 0)
  /// What the network was told to do; for how many datagrams it drew lots, how many of those it carried, and how many
  /// it was offered in all, before it healed.
  private let told: LinkConditions
  private var drawn = 0
  private var carried = 0
  private var offeredIll = 0
  private var isHealed = false

  init(_ conditions: LinkConditions, random: SeededRandom) {
    self.conditions = conditions
    told = conditions
    self.random = random
  }

  struct Copy {
    var index: Int
    var arrival: Instant
    var bytes: [UInt8]
  }

  /// The network is well from now on.
  func heal() {
    conditions = LinkConditions(delay: conditions.delay)
    isHealed = true
    isInBurst = false
  }

  /// What becomes of a datagram: no copy, one, or more.
  func carry(_ bytes: [UInt8], hasReceipt: Bool, now: Instant) -> [Copy] {
    let index = counters.offered
    counters.offered += 1
    if !isHealed { offeredIll += 1 }
    if conditions.off.contains(where: { $0.contains(now) }) {
      counters.blocked += 1
      return []
    }
    if bytes.count > conditions.largest {
      counters.tooLarge += 1
      return []
    }
    if conditions.dropsReceipts, hasReceipt {
      counters.receiptsDropped += 1
      return []
    }
    if isLost(index) {
      counters.lost += 1
      return []
    }
    guard let departure = departure(bytes.count, now: now) else {
      counters.overflowed += 1
      return []
    }
    if !isHealed { carried += 1 }
    var copies = [copy(of: bytes, index: index, now: departure)]
    if random.chance(conditions.duplication) {
      counters.duplicated += 1
      let later = departure + random.interval(upTo: conditions.reorderingDelay)
      copies.append(copy(of: bytes, index: index, now: later))
    }
    for _ in 0..<conditions.replays {
      counters.replayed += 1
      let late = now + conditions.delay + random.interval(upTo: conditions.replaySpread)
      copies.append(Copy(index: index, arrival: late, bytes: bytes))
    }
    return copies.filter(awaitReceiver)
  }

  private func isLost(_ index: Int) -> Bool {
    if !isHealed { drawn += 1 }
    let turns = random.chance(isInBurst ? conditions.burstEnds : conditions.burstBegins)
    if turns { isInBurst.toggle() }
    let isBurst = isInBurst && (conditions.burstLoss >= 1 || random.chance(conditions.burstLoss))
    return isBurst || random.chance(conditions.loss) || conditions.dropped.contains(index)
  }

  /// When the last byte is on the road; nil when the queue is full.
  private func departure(_ bytes: Int, now: Instant) -> Instant? {
    guard conditions.bytesPerSecond > 0 else { return now }
    while let first = departures.first, first <= now { departures.removeFirst() }
    guard departures.count < conditions.queue else { return nil }
    if free > now { counters.queued += 1 }
    free = max(free, now) + Interval(nanoseconds: Int64(bytes) * 1_000_000_000 / Int64(conditions.bytesPerSecond))
    departures.append(free)
    return free
  }

  private func copy(of bytes: [UInt8], index: Int, now: Instant) -> Copy {
    var arrival = now + conditions.delay
    if random.chance(conditions.reordering) { arrival = arrival + random.interval(upTo: conditions.reorderingDelay) }
    var copy = Copy(index: index, arrival: arrival, bytes: bytes)
    if random.chance(conditions.corruption) {
      counters.corrupted += 1
      let bit = Int(random.next() % UInt64(bytes.count * 8))
      copy.bytes[bit / 8] ^= 1 << UInt8(bit % 8)
    }
    return copy
  }

  /// Whoever does not run finds in its socket what came meanwhile, as far as that holds it.
  private func awaitReceiver(_ copy: Copy) -> Bool {
    guard let end = receiverSleeps.end(from: copy.arrival) else { return true }
    if asleep.until != end { asleep = (end, 0) }
    asleep.waiting += 1
    guard asleep.waiting <= conditions.socket else {
      counters.overrun += 1
      return false
    }
    counters.sleptOver += 1
    return true
  }

  /// When a copy is read: not while its receiver sleeps.
  func reading(of copy: Copy) -> Instant {
    receiverSleeps.end(from: copy.arrival) ?? copy.arrival
  }

  /// A copy is here.
  func delivered(_ copy: Copy) {
    counters.delivered += 1
    if copy.index < newestDelivered { counters.reordered += 1 }
    newestDelivered = max(newestDelivered, copy.index)
  }

  // MARK: - Whether it did anything

  /// What the network was told to do and did not, though lots enough were drawn for it: twenty are expected, and none
  /// fell, which happens once in 500 million runs.
  var neglected: [Deed] {
    var found: [Deed] = []
    func expect(_ deed: Deed, _ chance: Double, of count: Int) {
      if chance * Double(count) >= 20, deed.count(in: counters) == 0 { found.append(deed) }
    }
    expect(.lost, told.loss, of: drawn)
    // Bursts begin outside of bursts only.
    expect(.lost, told.burstBegins * told.burstLoss * told.burstEnds / (told.burstBegins + told.burstEnds), of: drawn)
    expect(.duplicated, told.duplication, of: carried)
    expect(.corrupted, told.corruption, of: carried)
    expect(.replayed, Double(told.replays), of: carried)
    if told.dropped.contains(where: { $0 < offeredIll }), counters.dropped == 0 { found.append(.lost) }
    return found
  }
}
