/// A message that came for this device.
public struct IncomingMessage: Hashable, Sendable {
  public var messageId: UInt64
  public var from: String
  /// The sender's device number.
  public var device: UInt32
  public var order: UInt64
  public var floor: UInt64
  public var content: MessageContent
  /// When the server took it, Unix milliseconds.
  public var serverTime: UInt64
  /// The way it first came.
  public var transport: Transport
  /// It came after the wait for it was given up: later messages of its conversation were shown before.
  public var isLate = false

  /// Reads what a server relayed.
  ///
  /// - Throws: `malformed`, `textInvalid`, `nameInvalid`.
  public init(reading payload: Span<UInt8>, transport: Transport) throws(WireError) {
    let fields = try MessageFields(reading: payload)
    guard Text.isUserName(payload.extracting(fields.fromUser)) else { throw .nameInvalid }
    guard fields.floor > 0, fields.floor <= fields.order, fields.order < 1 << 40 else { throw .malformed }
    messageId = fields.messageId
    from = fields.fromUser(in: payload)
    device = fields.deviceNumber
    order = fields.order
    floor = fields.floor
    content = try MessageContent(fields, payload: payload)
    serverTime = fields.serverTime
    self.transport = transport
  }
}
