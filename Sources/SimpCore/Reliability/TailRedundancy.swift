/// When messages go a second time although nothing is lost yet.
public enum Redundancy: String, Hashable, Sendable, CaseIterable {
  /// Never.
  case off
  /// While datagrams with new messages leave 50 ms apart or more in the mean: a conversation between people.
  case idle
  /// At any rate. Doubles the bytes of messages.
  case always
}

/// The messages of the last datagram, which go once more: a copy costs bytes, a loss a round trip and more, for nothing
/// follows that would tell of it.
///
/// They ride in a datagram that leaves within a quarter of the round trip; else they leave by themselves then.
struct TailRedundancy {
  /// Below that a loss costs less than anybody notices, and what is sent twice costs speed.
  static let leastRTT = Interval.milliseconds(2)
  static let idleGap = Interval.milliseconds(50)
  /// What counts of a longer silence, so that ten datagrams of a burst make it none.
  static let longestGap = Interval.milliseconds(200)
  static let partOfRTT: Int64 = 4

  var mode = Redundancy.idle
  private(set) var copies: UInt64 = 0
  /// When what waits leaves by itself; nil while nothing waits.
  private(set) var due: Instant?
  /// The datagram whose messages wait wants its receipt now; so does their copy, for what is heard of one of them must be
  /// true of both.
  private(set) var wanted = false
  private(set) var datagram: UInt64 = 0
  // BOUND: the messages of one datagram.
  private var tail: [MessageKey] = []
  private var meanGap = longestGap
  private var lastFirst: Instant?

  /// A datagram left.
  ///
  /// - Parameters:
  ///   - datagram: its number.
  ///   - messages: those in it that are no copies.
  ///   - again: how many of these, at their beginning, were lost before. To lose one twice costs several round trips, so
  ///     they go twice in a busy conversation too.
  mutating func left(
    _ datagram: UInt64, _ messages: [MessageKey], again: Int, hasFirst: Bool, wanted: Bool, rtt: RTTEstimator,
    now: Instant
  ) {
    if hasFirst {
      if let lastFirst { meanGap = (meanGap * 7 + min(now - lastFirst, Self.longestGap)) / 8 }
      lastFirst = now
    }
    stop()
    guard rtt.latest != nil, rtt.smoothed >= Self.leastRTT else { return }
    tail = isOn ? messages : mode == .off ? [] : Array(messages.prefix(again))
    guard !tail.isEmpty else { return }
    self.wanted = wanted
    self.datagram = datagram
    due = now + rtt.smoothed / Self.partOfRTT
  }

  private var isOn: Bool {
    switch mode {
    case .off: false
    case .idle: meanGap >= Self.idleGap
    case .always: true
    }
  }

  /// What waits, for a datagram that leaves now.
  mutating func take() -> [MessageKey] {
    defer { stop() }
    return tail
  }

  /// A message was sent again.
  mutating func copied() { copies += 1 }

  /// What waits does not go.
  mutating func stop() {
    tail = []
    due = nil
    wanted = false
  }
}
