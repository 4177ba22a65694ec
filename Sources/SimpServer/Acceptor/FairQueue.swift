/// Connections that wait, by where they come from: each source is served in its turn, and when there are too many, one
/// that has more than its share gives way. A flood from a few addresses so keeps out itself.
struct FairQueue {
  private struct Line {
    // BOUND: as many that left as wait, and some.
    var ids: [UInt64] = []
    var head = 0
    var count = 0

    mutating func append(_ id: UInt64, isPresent: (UInt64) -> Bool) {
      if ids.count > 2 * count + 64 {
        ids = ids[head...].filter(isPresent)
        head = 0
      }
      ids.append(id)
      count += 1
    }

    var first: UInt64? { head < ids.count ? ids[head] : nil }

    mutating func popFirst() -> UInt64? {
      guard head < ids.count else { return nil }
      head += 1
      return ids[head - 1]
    }
  }

  private var lines: [PeerSource: Line] = [:]
  private var sources: [UInt64: PeerSource] = [:]
  // BOUND: as many that left as have a line, and some.
  private var round: [PeerSource] = []
  private var roundHead = 0

  var count: Int { sources.count }
  var isEmpty: Bool { sources.isEmpty }
  /// Entries in memory, with those that left: for tests.
  var storedCount: Int { lines.values.reduce(round.count) { $0 + $1.ids.count } }

  /// - Parameter id: rises from one to the next.
  mutating func append(_ id: UInt64, from source: PeerSource) {
    if lines[source] == nil { enterRound(source) }
    sources[id] = source
    lines[source, default: Line()].append(id) { sources[$0] != nil }
  }

  mutating func remove(_ id: UInt64) {
    guard let source = sources.removeValue(forKey: id) else { return }
    leaveLine(source)
  }

  /// Takes out the next: of each source the one that waits longest, one source after the other.
  mutating func popFirst() -> UInt64? {
    while roundHead < round.count {
      let source = round[roundHead]
      roundHead += 1
      guard let id = popOldest(of: source) else { continue }
      if lines[source] != nil { enterRound(source) }
      return id
    }
    round = []
    roundHead = 0
    return nil
  }

  /// A source that has more than its share: that of a newcomer if it has, else another; nil if all have the same.
  func greedy(for source: PeerSource) -> PeerSource? {
    guard !lines.isEmpty else { return nil }
    let share = sources.count / lines.count
    if lines[source]?.count ?? 0 > share { return source }
    return lines.first { $0.value.count > share }?.key
  }

  func source(of id: UInt64) -> PeerSource? { sources[id] }

  /// The lowest id.
  var oldest: UInt64? { sources.keys.min() }

  /// The one of that source that waits longest.
  mutating func oldest(of source: PeerSource) -> UInt64? {
    while let id = lines[source]?.first {
      if sources[id] == source { return id }
      _ = lines[source]?.popFirst()
    }
    return nil
  }

  private mutating func popOldest(of source: PeerSource) -> UInt64? {
    guard let id = oldest(of: source) else { return nil }
    _ = lines[source]?.popFirst()
    sources[id] = nil
    leaveLine(source)
    return id
  }

  private mutating func leaveLine(_ source: PeerSource) {
    lines[source]?.count -= 1
    if lines[source]?.count == 0 { lines[source] = nil }
  }

  private mutating func enterRound(_ source: PeerSource) {
    if round.count > 2 * lines.count + 64 {
      var seen: Set<PeerSource> = []
      round = round[roundHead...].filter { lines[$0] != nil && seen.insert($0).inserted }
      roundHead = 0
    }
    round.append(source)
  }
}
