/// Says when DELIVERED may leave for messages that come into a store.
///
/// Not before body and duplicate mark are committed together. And while the application lags by more than its room, not
/// even then: the sender's server, which counts what is not delivered, would send on for ever, and the store would grow.
public struct StoredIntake {
  /// What a receipt names.
  public struct Delivered: Hashable, Sendable {
    public var from: String
    public var device: UInt32
    public var order: UInt64
  }

  private struct Waiting {
    var delivered: Delivered
    /// Messages and bytes committed up to this one, itself included.
    var messages: UInt64
    var bytes: UInt64
  }

  private let roomMessages: UInt64
  private let roomBytes: UInt64
  private var committedMessages: UInt64 = 0
  private var committedBytes: UInt64 = 0
  private var acknowledgedMessages: UInt64 = 0
  private var acknowledgedBytes: UInt64 = 0
  // BOUND: what is not receipted is bounded by the room that this device announced, as `InboundMessages` sees to.
  private var waiting = Queue<Waiting>()

  public init(roomMessages: Int, roomBytes: Int) {
    self.roomMessages = UInt64(max(1, roomMessages))
    self.roomBytes = UInt64(max(1, roomBytes))
  }

  /// A message that the store held from before: it was receipted then, or is when it is offered again.
  public mutating func restored(_ message: IncomingMessage) { count(message) }

  /// A message and its mark are in the store, in the order of the store.
  public mutating func committed(_ message: IncomingMessage) {
    count(message)
    let delivered = Delivered(from: message.from, device: message.device, order: message.order)
    waiting.append(Waiting(delivered: delivered, messages: committedMessages, bytes: committedBytes))
  }

  /// The application is done with one of them, of this size.
  public mutating func acknowledged(bytes: Int) {
    acknowledgedMessages += 1
    acknowledgedBytes += UInt64(bytes)
  }

  /// Those that DELIVERED may be said of now, once each.
  public mutating func takeDelivered() -> [Delivered] {
    var taken: [Delivered] = []
    while let next = waiting.first, hasRoom(for: next) {
      taken.append(next.delivered)
      waiting.removeFirst()
    }
    return taken
  }

  /// Messages committed and not acknowledged.
  public var unacknowledged: Int { Int(committedMessages - acknowledgedMessages) }

  private mutating func count(_ message: IncomingMessage) {
    committedMessages += 1
    committedBytes += UInt64(message.content.size)
  }

  private func hasRoom(for next: Waiting) -> Bool {
    // One that is larger than all of the room passes when it is alone. Acknowledged out of order, others may be ahead.
    let messages = max(0, Int64(bitPattern: next.messages &- acknowledgedMessages))
    let bytes = max(0, Int64(bitPattern: next.bytes &- acknowledgedBytes))
    return messages <= 1 || (UInt64(messages) <= roomMessages && UInt64(bytes) <= roomBytes)
  }
}
