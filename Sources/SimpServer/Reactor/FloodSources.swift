internal import SimpCore

/// Sources from which so many datagrams came in vain that the kernel is asked to drop what they send: a flood then costs
/// the one who makes it, and this server next to nothing.
///
/// Who is logged in is never refused, whatever comes under his address: whoever writes it on his datagrams would shut him
/// out. A source in which nobody is logged in loses UDP only, and not for longer than until somebody there logs in.
struct FloodSources {
  /// Datagrams in vain of one source between two ticks that make a flood: ten thousand a second. All that a restarted
  /// server hears of its former clients is less.
  static let threshold = 1000
  /// How long a source is refused. A flood that goes on is heard for a thousand datagrams each time.
  static let time = Interval.seconds(30)
  // BOUND: what the kernel's filter looks through for each datagram, and what is counted between two ticks.
  static let maximumRefused = 32
  static let maximumCounted = 256

  private var counts: [PeerSource: Int] = [:]
  // A flood comes from one source for long stretches: the table is touched when it changes.
  private var last: PeerSource?
  private var lastCount = 0
  /// Until when each is refused.
  private var refused: [PeerSource: Instant] = [:]

  var sources: [PeerSource] { Array(refused.keys) }

  /// Sources that are counted, for tests.
  var countedSources: Int { counts.count }

  /// A datagram was dropped.
  ///
  /// - Returns: whether its source makes a flood by it; true once between two ticks.
  mutating func cameInVain(from source: PeerSource) -> Bool {
    if last != source {
      if let last, counts.count < Self.maximumCounted || counts[last] != nil { counts[last] = lastCount }
      last = source
      lastCount = counts[source] ?? 0
    }
    lastCount += 1
    return lastCount == Self.threshold
  }

  /// - Returns: whether it is refused from now on; not if so many others are.
  mutating func refuse(_ source: PeerSource, now: Instant) -> Bool {
    guard refused.count < Self.maximumRefused, refused[source] == nil else { return false }
    refused[source] = now + Self.time
    return true
  }

  /// Somebody there logged in.
  ///
  /// - Returns: whether it was refused until now.
  mutating func welcome(_ source: PeerSource) -> Bool { refused.removeValue(forKey: source) != nil }

  /// - Returns: whether the time of one that was refused is over.
  mutating func tick(now: Instant) -> Bool {
    counts.removeAll(keepingCapacity: true)
    last = nil
    lastCount = 0
    let before = refused.count
    if before > 0 { refused = refused.filter { now < $0.value } }
    return refused.count != before
  }
}
