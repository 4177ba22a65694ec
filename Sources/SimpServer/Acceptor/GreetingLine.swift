internal import SimpCore

/// Which handshakes of TLS may go on: as many a second as there is a rate for. The others stand in line, each source in
/// its turn.
struct GreetingLine {
  // BOUND: connections that have not shaken hands; who ends is removed.
  private var waiting = FairQueue()
  /// When `next` is to be asked; `.never` while nobody waits.
  private(set) var due = Instant.never

  /// The first message of a handshake is there.
  ///
  /// - Parameter take: takes one from the rate, nil, or says how long there is none.
  /// - Returns: whether it is answered now; else it waits.
  mutating func arrive(_ id: UInt64, from source: PeerSource, now: Instant, take: (Instant) -> Interval?) -> Bool {
    if waiting.isEmpty {
      guard let wait = take(now) else { return true }
      due = now + wait
    }
    waiting.append(id, from: source)
    return false
  }

  /// The one that goes on now, nil when none may yet. `due` says when to ask again.
  mutating func next(now: Instant, take: (Instant) -> Interval?) -> UInt64? {
    due = .never
    guard !waiting.isEmpty else { return nil }
    if let wait = take(now) {
      due = now + wait
      return nil
    }
    let id = waiting.popFirst()
    if !waiting.isEmpty { due = now }
    return id
  }

  mutating func remove(_ id: UInt64) { waiting.remove(id) }
}
