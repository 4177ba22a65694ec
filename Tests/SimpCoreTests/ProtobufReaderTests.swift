import Testing

@testable import SimpCore

@Suite struct ProtobufReaderTests {
  private func fields(_ bytes: [UInt8]) throws(WireError) -> [ProtobufField] {
    var reader = ProtobufReader(bytes.span)
    var found: [ProtobufField] = []
    while let field = try reader.next() { found.append(field) }
    return found
  }

  @Test func eachKind() throws {
    let found = try fields([0x08, 0x96, 0x01, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x1A, 2, 9, 9, 0x25, 1, 0, 0, 0x80])
    #expect(found.map(\.number) == [1, 2, 3, 4])
    #expect(found.map(\.value) == [150, 0x0807_0605_0403_0201, 0, 0x8000_0001])
    #expect(found[2].range == 14..<16)
    #expect(try fields([]).isEmpty)
  }

  @Test func theMalformed() {
    let corpus: [[UInt8]] = [
      [0x08],  // a tag without value
      [0x08, 0x80],  // a varint that ends in the middle
      [0x80],  // a tag that ends in the middle
      [0x00, 0x01],  // field 0
      [0x0B], [0x0C],  // groups
      [0x0E], [0x0F],  // kinds 6 and 7
      [0x09, 1, 2, 3, 4, 5, 6, 7],  // fixed64 too short
      [0x0D, 1, 2, 3],  // fixed32 too short
      [0x0A, 0x01],  // bytes that are not there
      [0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01],  // a length of all ones
      [0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F],  // a length near Int.max
      [0x08] + [UInt8](repeating: 0x80, count: 10) + [0x01],  // 11 bytes
      [0x08] + [UInt8](repeating: 0xFF, count: 9) + [0x02],  // more than 64 bits
      [0x80, 0x80, 0x80, 0x80, 0x10, 0x01],  // field number 2^29
      [0x88, 0x80, 0x80, 0x80, 0x80, 0x00, 0x01],  // a tag of 6 bytes
      [0x0A, 0x81, 0x80, 0x80, 0x80, 0x80, 0x00, 9],  // a length of 6 bytes
    ]
    for bytes in corpus { #expect(throws: WireError.malformed, "\(bytes)") { try fields(bytes) } }
  }

  @Test func theLargestThatAreGood() throws {
    #expect(try fields([0x08] + [UInt8](repeating: 0xFF, count: 9) + [0x01])[0].value == .max)
    #expect(try fields([0xF8, 0xFF, 0xFF, 0xFF, 0x0F, 0x01])[0].number == 1 << 29 - 1)
    // Longer than need be, which Protobuf allows.
    #expect(try fields([0x08, 0x81, 0x80, 0x00])[0].value == 1)
  }

  @Test func anythingIsAnErrorOrAMessageAndNothingElse() {
    var random = Seeded(5)
    for _ in 0..<20_000 {
      let bytes = (0..<Int(random.next() % 40)).map { _ in UInt8(truncatingIfNeeded: random.next()) }
      _ = try? fields(bytes)
      _ = try? MessageFields(reading: bytes.span)
      _ = try? IncomingMessage(reading: bytes.span, transport: .tcp)
      _ = try? Receipt(reading: bytes.span)
      _ = try? Login(reading: bytes.span)
      _ = try? LoginReply(reading: bytes.span)
      _ = try? Refusal(reading: bytes.span)
    }
  }

  /// Every prefix and every turned bit of a real message is an error value or a message.
  @Test func mutilatedMessages() {
    var content = MessageContent(text: "grüße")
    content.attachment = Attachment()
    content.attachment?.url = "u"
    let good = EncodedMessage(content, messageId: 1 << 40 | 9, order: 3, toUser: "bob").bytes[16...]
    for count in 0..<good.count { _ = try? MessageFields(reading: Array(good.prefix(count)).span) }
    for bit in 0..<good.count * 8 {
      var bytes = Array(good)
      bytes[bit / 8] ^= 1 << UInt8(bit % 8)
      if let fields = try? MessageFields(reading: bytes.span) { _ = try? fields.checkFromClient(bytes.span) }
    }
  }

  @Test func writtenFieldsReadBack() throws {
    var bytes: [UInt8] = []
    bytes.appendField(1, varint: .max)
    bytes.appendField(2, fixed64: 7)
    bytes.appendField(3, string: "ü")
    bytes.appendField(4, bytes: [1, 2])
    bytes.appendField(5, float: 1.5)
    bytes.appendField(6, packed: [1, 300])
    let found = try fields(bytes)
    #expect(found.map(\.number) == [1, 2, 3, 4, 5, 6])
    #expect(found[4].value == UInt64(Float(1.5).bitPattern) && found[5].range.count == 3)
  }

  @Test func whatHasItsDefaultIsLeftOut() {
    var bytes: [UInt8] = []
    bytes.appendField(1, varint: 0)
    bytes.appendField(2, fixed64: 0)
    bytes.appendField(3, string: "")
    bytes.appendField(4, bytes: [])
    bytes.appendField(5, float: 0)
    bytes.appendField(6, packed: [UInt64]())
    #expect(bytes.isEmpty)
  }
}
