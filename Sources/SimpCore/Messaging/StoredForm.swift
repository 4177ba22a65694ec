/// How messages lie in a store: the fields of message.proto with their numbers there, so that a store of today is read
/// by later versions as packets of today are.

extension MessageContent {
  /// The content alone.
  public var storedForm: [UInt8] {
    var bytes: [UInt8] = []
    appendFields(to: &bytes)
    return bytes
  }

  /// Reads what `storedForm` gave.
  ///
  /// - Throws: `malformed`, `textInvalid`: the bytes were damaged.
  public init(storedForm bytes: Span<UInt8>) throws(WireError) {
    self = try MessageContent(MessageFields(reading: bytes), payload: bytes)
  }

  fileprivate func appendFields(to bytes: inout [UInt8]) {
    bytes.appendField(3, varint: time)
    bytes.appendField(4, string: text)
    bytes.appendField(5, string: imageURL)
    bytes.appendField(8, varint: type)
    bytes.appendField(9, float: imageScale)
    if let attachment { bytes.appendField(14, message: attachment.append) }
    bytes.appendField(15, bytes: custom)
  }
}

extension IncomingMessage {
  /// The message as a server relays it. `transport` and `isLate` are no part of it.
  public var storedForm: [UInt8] {
    var bytes: [UInt8] = []
    bytes.appendField(2, varint: messageId)
    content.appendFields(to: &bytes)
    bytes.appendField(6, string: from)
    bytes.appendField(10, varint: serverTime)
    bytes.appendField(11, varint: order)
    bytes.appendField(12, fixed64: floor)
    return bytes
  }
}

/// What an outbox in a file was before: see `Outbox.init(restoring:)`.
public struct OutboxContents: Sendable {
  /// Random, not 0.
  public var id: UInt64
  /// 0: no login gave one yet.
  public var deviceNumber: UInt32 = 0
  /// The counter of the last message that entered.
  public var counter: UInt64 = 0
  /// The order that the next message to a user gets.
  public var nextOrders: [(user: String, order: UInt64)] = []
  /// Without a final receipt, by counter.
  public var messages: [Message] = []

  public struct Message: Sendable {
    public var counter: UInt64
    public var user: String
    public var order: UInt64
    public var content: MessageContent

    public init(counter: UInt64, user: String, order: UInt64, content: MessageContent) {
      self.counter = counter
      self.user = user
      self.order = order
      self.content = content
    }
  }

  public init(id: UInt64) { self.id = id }
}
