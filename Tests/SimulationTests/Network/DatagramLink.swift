import SimpCore

/// One direction of the datagram path of one client.
final class DatagramLink {
  var conditions: LinkConditions
  private(set) var counters = LinkCounters()
  private var random: SeededRandom
  private var isInBurst = false
  private var newestDelivered = -1

  init(_ conditions: LinkConditions, random: SeededRandom) {
    self.conditions = conditions
    self.random = random
  }

  struct Copy {
    var index: Int
    var arrival: Instant
    var bytes: [UInt8]
  }

  /// What becomes of a datagram: no copy, one, or two.
  func carry(_ bytes: [UInt8], now: Instant) -> [Copy] {
    let index = counters.offered
    counters.offered += 1
    if conditions.off.contains(where: { $0.contains(now) }) {
      counters.blocked += 1
      return []
    }
    let turns = random.chance(isInBurst ? conditions.burstEnds : conditions.burstBegins)
    if turns { isInBurst.toggle() }
    if isInBurst || random.chance(conditions.loss) || conditions.dropped.contains(index) {
      counters.lost += 1
      return []
    }
    var copies = [copy(of: bytes, index: index, now: now)]
    if random.chance(conditions.duplication) {
      counters.duplicated += 1
      copies.append(copy(of: bytes, index: index, now: now + random.interval(upTo: conditions.reorderingDelay)))
    }
    for _ in 0..<conditions.replays {
      counters.replayed += 1
      let late = now + conditions.delay + random.interval(upTo: conditions.replaySpread)
      copies.append(Copy(index: index, arrival: late, bytes: bytes))
    }
    return copies
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

  /// A copy is here.
  func delivered(_ copy: Copy) {
    counters.delivered += 1
    if copy.index < newestDelivered { counters.reordered += 1 }
    newestDelivered = max(newestDelivered, copy.index)
  }
}
