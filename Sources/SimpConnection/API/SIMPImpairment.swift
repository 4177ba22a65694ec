/// A bad network for one's own datagrams, both ways: for tests and load tests. TCP is left alone.
public struct SIMPImpairment: Hashable, Sendable {
  /// The share of datagrams that is lost, 0 to 1, each way.
  public var loss: Double
  /// How long each datagram is held up, each way; adds twice this to the round-trip time.
  public var delay: Duration
  /// The same seed loses the same datagrams of a sequence.
  public var seed: UInt64

  public init(loss: Double = 0, delay: Duration = .zero, seed: UInt64 = 1) {
    self.loss = loss
    self.delay = delay
    self.seed = seed
  }
}
