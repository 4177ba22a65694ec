/// How a message went, over all sessions in which it was sent.
public struct MessageJourney: Hashable, Sendable {
  /// Transmissions, by either channel.
  public var attempts = 0
  /// Nil when it never left.
  public var firstSent: Instant?
  public var byUDP = false
  public var byTCP = false

  public init() {}

  /// Takes in what happened to it in one session more.
  mutating func add(_ entry: MessageWindow.Entry) {
    guard entry.attempts > 0 else { return }
    attempts += Int(entry.attempts)
    firstSent = firstSent ?? entry.firstSent
    // A message that waits for a channel is marked for it before it leaves; one that was sent once took one of them.
    byTCP = byTCP || entry.byTCP
    byUDP = byUDP || entry.byUDP
  }
}
