/// What an application says in one message.
public struct MessageContent: Hashable, Sendable {
  /// `MessageType` of message.proto: 1 text, 2 image, 3 audio; numbers of newer versions pass through.
  public var type: UInt64 = 1
  public var text = ""
  public var imageURL = ""
  /// Width over height.
  public var imageScale: Float = 0
  public var attachment: Attachment?
  /// The application's own bytes.
  public var custom: [UInt8] = []
  /// When it was written, Unix milliseconds.
  public var time: UInt64 = 0

  public init() {}

  /// Text of type TEXT.
  public init(text: String, time: UInt64 = 0) {
    self.text = text
    self.time = time
  }

  init(_ fields: MessageFields, payload: Span<UInt8>) throws(WireError) {
    type = fields.type
    text = Text.string(payload, fields.content)
    imageURL = Text.string(payload, fields.imageURL)
    imageScale = fields.imageScale
    if let range = fields.attachment { attachment = try Attachment(reading: payload.extracting(range)) }
    custom = [UInt8](payload.extracting(fields.custom))
    time = fields.time
  }

  /// No string holds U+0000, which the wire refuses.
  public var isValidText: Bool {
    if Text.holdsNul(text) || Text.holdsNul(imageURL) { return false }
    guard let attachment else { return true }
    return !Text.holdsNul(attachment.url) && !Text.holdsNul(attachment.mime)
  }
}

/// Media that a message points to and does not carry.
public struct Attachment: Hashable, Sendable {
  public var url = ""
  /// 32 bytes.
  public var sha256: [UInt8] = []
  /// Bytes.
  public var size: UInt64 = 0
  public var mime = ""
  /// Pixels.
  public var width: UInt32 = 0
  public var height: UInt32 = 0
  public var durationMilliseconds: UInt32 = 0

  public init() {}

  init(reading bytes: Span<UInt8>) throws(WireError) {
    var reader = ProtobufReader(bytes)
    while let field = try reader.next() {
      switch (field.number, field.kind) {
      case (1, .bytes): url = Text.string(bytes, field.range)
      case (2, .bytes): sha256 = [UInt8](bytes.extracting(field.range))
      case (3, .varint): size = field.value
      case (4, .bytes): mime = Text.string(bytes, field.range)
      case (5, .varint): width = UInt32(truncatingIfNeeded: field.value)
      case (6, .varint): height = UInt32(truncatingIfNeeded: field.value)
      case (7, .varint): durationMilliseconds = UInt32(truncatingIfNeeded: field.value)
      case (1...7, _): throw .malformed
      default: continue
      }
    }
  }

  /// Whether `init(reading:)` will take the bytes, and their text is right: what a server passes on must be readable.
  static func check(_ bytes: Span<UInt8>) throws(WireError) {
    var reader = ProtobufReader(bytes)
    while let field = try reader.next() {
      switch (field.number, field.kind) {
      case (1, .bytes), (4, .bytes):
        guard Text.isValid(bytes.extracting(field.range)) else { throw .textInvalid }
      case (2, .bytes), (3, .varint), (5...7, .varint): continue
      case (1...7, _): throw .malformed
      default: continue
      }
    }
  }

  func append(to bytes: inout [UInt8]) {
    bytes.appendField(1, string: url)
    bytes.appendField(2, bytes: sha256)
    bytes.appendField(3, varint: size)
    bytes.appendField(4, string: mime)
    bytes.appendField(5, varint: UInt64(width))
    bytes.appendField(6, varint: UInt64(height))
    bytes.appendField(7, varint: UInt64(durationMilliseconds))
  }
}

/// A MESSAGE packet ready to leave, as often as it takes. Its floor is written anew each time.
public struct EncodedMessage: Sendable {
  /// The whole packet, header included.
  public var bytes: [UInt8]
  /// Where the 8 bytes of the floor lie, nil in a relayed message: a server passes the floor on as it came.
  public var floorOffset: Int?

  /// What a client sends.
  public init(_ content: MessageContent, messageId: UInt64, order: UInt64, toUser: String) {
    var bytes: [UInt8] = []
    var floorOffset = 0
    PacketWriter.append(.message, to: &bytes) { payload in
      payload.appendField(2, varint: messageId)
      payload.appendField(3, varint: content.time)
      payload.appendField(4, string: content.text)
      payload.appendField(5, string: content.imageURL)
      payload.appendField(7, string: toUser)
      payload.appendField(8, varint: content.type)
      payload.appendField(9, float: content.imageScale)
      payload.appendField(11, varint: order)
      payload.appendField(12, fixed64: order)
      floorOffset = payload.count - 8
      if let attachment = content.attachment { payload.appendField(14, message: attachment.append) }
      payload.appendField(15, bytes: content.custom)
    }
    self.bytes = bytes
    self.floorOffset = floorOffset
  }

  /// What a server relays: the payload as it came, with `from_user` and `server_time` behind it.
  public init(relaying payload: Span<UInt8>, from user: String, serverTime: UInt64) {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(WireLimits.headerBytes + payload.count + WireLimits.relayReserveBytes)
    PacketWriter.append(.message, to: &bytes) { relayed in
      relayed.append(payload)
      relayed.appendField(6, string: user)
      relayed.appendField(10, varint: serverTime)
    }
    self.bytes = bytes
    floorOffset = nil
  }

  /// What a server hands on that it had stored: the relayed payload with a floor of its own behind it, for the sender's
  /// word counts what is stored as finished, and the recipient must still wait for it.
  public init(stored payload: [UInt8], floor: UInt64) {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(WireLimits.headerBytes + payload.count + WireLimits.relayReserveBytes)
    PacketWriter.append(.message, to: &bytes) { relayed in
      relayed.append(contentsOf: payload)
      relayed.appendField(12, fixed64: floor)
    }
    self.bytes = bytes
    floorOffset = nil
  }

  /// The packet without its header: what a server stores of a relayed message.
  public var payload: ArraySlice<UInt8> { bytes[WireLimits.headerBytes...] }

  /// Appends the packet with this floor.
  func append(to buffer: inout [UInt8], floor: UInt64) {
    let start = buffer.count
    buffer.append(contentsOf: bytes)
    guard let floorOffset else { return }
    for index in 0..<8 { buffer[start + floorOffset + index] = UInt8(truncatingIfNeeded: floor >> UInt64(8 * index)) }
  }
}
