/// The fields of a Message as they lie in its payload, found in one pass without a copy.
public struct MessageFields: Hashable, Sendable {
  public var messageId: UInt64 = 0
  public var time: UInt64 = 0
  public var type: UInt64 = 0
  public var imageScale: Float = 0
  public var serverTime: UInt64 = 0
  public var order: UInt64 = 0
  public var floor: UInt64 = 0
  public var content = 0..<0
  public var imageURL = 0..<0
  public var fromUser = 0..<0
  public var toUser = 0..<0
  public var toGroup = 0..<0
  /// nil: not in the bytes.
  public var attachment: Range<Int>?
  public var custom = 0..<0
  /// `server_time` was in the bytes, be it 0.
  public var hasServerTime = false
  /// The attachment stands twice: Protobuf merges the two, this type has the last.
  public var hasTwoAttachments = false
  /// `from_user` was in the bytes, be it empty.
  public var hasFromUser = false

  /// The sender's device number: the upper 24 bits of the message ID.
  public var deviceNumber: UInt32 { UInt32(messageId >> 40) }

  /// Reads a payload. In Protobuf the last of several values wins, so what a server appended holds.
  ///
  /// - Throws: `malformed`; `textInvalid` for any string, also one that a later value replaced.
  public init(reading payload: Span<UInt8>) throws(WireError) {
    var reader = ProtobufReader(payload)
    while let field = try reader.next() {
      switch (field.number, field.kind) {
      case (2, .varint): messageId = field.value
      case (3, .varint): time = field.value
      case (4, .bytes): content = try Self.text(field, payload)
      case (5, .bytes): imageURL = try Self.text(field, payload)
      case (6, .bytes):
        fromUser = try Self.text(field, payload)
        hasFromUser = true
      case (7, .bytes): toUser = try Self.text(field, payload)
      case (8, .varint): type = field.value
      case (9, .fixed32): imageScale = Float(bitPattern: UInt32(field.value))
      case (10, .varint):
        serverTime = field.value
        hasServerTime = true
      case (11, .varint): order = field.value
      case (12, .fixed64): floor = field.value
      case (13, .bytes): toGroup = try Self.text(field, payload)
      case (14, .bytes):
        try Attachment.check(payload.extracting(field.range))
        hasTwoAttachments = attachment != nil
        attachment = field.range
      case (15, .bytes): custom = field.range
      case (2...15, _): throw .malformed
      default: continue  // a newer sender's field
      }
    }
  }

  private static func text(_ field: ProtobufField, _ payload: Span<UInt8>) throws(WireError) -> Range<Int> {
    guard Text.isValid(payload.extracting(field.range)) else { throw .textInvalid }
    return field.range
  }

  /// What a server asks of a message that a client sent, beyond well-formed bytes.
  ///
  /// - Throws: `fieldForbidden` when the client set `from_user` or `server_time`; `nameInvalid` for the recipient;
  ///   `malformed` for an order of 0, over 40 bits, or under its floor, for a floor of 0, and for two attachments, which
  ///   recipients could read differently.
  public func checkFromClient(_ payload: Span<UInt8>) throws(WireError) {
    guard !hasFromUser, !hasServerTime else { throw .fieldForbidden }
    guard Text.isUserName(payload.extracting(toUser)) else { throw .nameInvalid }
    guard toGroup.isEmpty, !hasTwoAttachments, floor > 0, floor <= order, order < 1 << 40 else { throw .malformed }
  }

  public func fromUser(in payload: Span<UInt8>) -> String { Text.string(payload, fromUser) }
  public func toUser(in payload: Span<UInt8>) -> String { Text.string(payload, toUser) }
}
