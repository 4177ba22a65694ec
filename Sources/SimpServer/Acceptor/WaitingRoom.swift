/// Connections that are not in yet, a bounded number of them. When there are too many, the source that has more than its
/// share gives way, and of it the oldest that has not said yet what it is asked for: for an honest one soon does.
///
/// Who has said it is being served. To send it away for a newcomer would serve nobody when a crowd comes at once: each
/// would be displaced before its turn, and come again. Then it is the newcomer that goes, and comes again later.
struct WaitingRoom {
  private var all = FairQueue()
  private var silent = FairQueue()

  var count: Int { all.count }

  /// - Parameter id: rises from one to the next.
  mutating func append(_ id: UInt64, from source: PeerSource) {
    all.append(id, from: source)
    silent.append(id, from: source)
  }

  /// It has said what it is asked for.
  mutating func hasSpoken(_ id: UInt64) { silent.remove(id) }

  mutating func remove(_ id: UInt64) {
    all.remove(id)
    silent.remove(id)
  }

  /// Takes out the one that gives way to a newcomer, which may be the newcomer.
  mutating func displace(for source: PeerSource) -> UInt64? {
    guard let yielding = all.yielding(for: source) else { return nil }
    guard let id = silent.popOldest(of: yielding) ?? all.popOldest(of: yielding) else { return nil }
    remove(id)
    return id
  }
}
