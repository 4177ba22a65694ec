internal import SimpCore

/// Which handshakes of TLS may go on: as many a second as there is a rate for, and one a turn of the loop, because one
/// takes longer than a batch of datagrams, which so waits for one at most. The others stand in line, each source in its
/// turn.
struct GreetingLine {
  // BOUND: connections that have not logged in; who ends is removed.
  private var waiting = FairQueue()
  private var isTurnTaken = false
  /// When `next` is to be asked; `.never` while nobody waits.
  private(set) var due = Instant.never

  /// The first message of a handshake is there.
  ///
  /// - Parameter take: takes one from the rate, nil, or says how long there is none.
  /// - Returns: whether it is answered now; else it waits.
  mutating func arrive(_ id: UInt64, from source: PeerSource, now: Instant, take: (Instant) -> Interval?) -> Bool {
    if waiting.isEmpty {
      if isTurnTaken {
        due = now
      } else if let wait = take(now) {
        due = now + wait
      } else {
        isTurnTaken = true
        return true
      }
    }
    waiting.append(id, from: source)
    return false
  }

  /// The one that goes on now, nil when none may yet. `due` says when to ask again, in a later turn.
  mutating func next(now: Instant, take: (Instant) -> Interval?) -> UInt64? {
    due = waiting.isEmpty ? .never : now
    guard !waiting.isEmpty, !isTurnTaken else { return nil }
    if let wait = take(now) {
      due = now + wait
      return nil
    }
    isTurnTaken = true
    let id = waiting.popFirst()
    if waiting.isEmpty { due = .never }
    return id
  }

  /// One that was let go on is answered in this turn, which may be the one after that in which it was chosen.
  mutating func begins() { isTurnTaken = true }

  mutating func turnEnded() { isTurnTaken = false }

  mutating func remove(_ id: UInt64) { waiting.remove(id) }
}
