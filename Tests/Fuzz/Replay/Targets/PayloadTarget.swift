@testable import SimpCore

/// The mapping of Protobuf to values: what decodes encodes again, and decodes to the same; and what the reader of
/// messages takes in, the Protobuf library takes in with the same values.
enum PayloadTarget {
  static let target = FuzzTarget(name: "payload", maximumBytes: 384, seeds: { seeds }, run: run)

  private static func run(_ input: [UInt8]) throws {
    guard let kind = input.first else { return }
    let payload = Array(input.dropFirst())
    switch kind % 14 {
    case 0: try roundTrip(payload, Login.init(reading:)) { $0.append(to: &$1) }
    case 1: try roundTrip(payload, LoginReply.init(reading:)) { $0.append(to: &$1) }
    case 2: try roundTrip(payload, Refusal.init(reading:)) { $0.append(to: &$1) }
    case 3: try roundTrip(payload, TokenPayload.read) { $1.appendField(1, fixed64: $0) }
    case 4: try readPathUp(payload)
    case 5: try roundTrip(payload, Receipt.init(reading:)) { $0.append(to: &$1) }
    case 6: try sendMessage(payload)
    case 7: try receiveMessage(payload)
    case 8...10:
      try roundTrip(payload, request(requests[Int(kind % 14) - 8])) { $0?.append(to: &$1) }
    default: try roundTrip(payload, answer(requests[Int(kind % 14) - 11])) { $0?.append(to: &$1) }
    }
  }

  private static let requests: [Command] = [.renew, .kick, .counters]

  private static func request(_ command: Command) -> (Span<UInt8>) throws(WireError) -> SessionRequest? {
    { payload throws(WireError) in try SessionRequest(command, reading: payload) }
  }

  private static func answer(_ command: Command) -> (Span<UInt8>) throws(WireError) -> SessionAnswer? {
    { payload throws(WireError) in try SessionAnswer(command, reading: payload) }
  }

  private static func roundTrip<Value: Equatable>(
    _ payload: [UInt8], _ decode: (Span<UInt8>) throws(WireError) -> Value, _ encode: (Value, inout [UInt8]) -> Void
  ) throws {
    guard let value = try? decode(payload.span) else { return }
    var bytes: [UInt8] = []
    encode(value, &bytes)
    let again = try? decode(bytes.span)
    try require(again == value, "\(value) came back as \(again.map { "\($0)" } ?? "nothing")")
    try require(bytes.count <= payload.count + 64, "\(payload.count) bytes became \(bytes.count)")
  }

  private static func readPathUp(_ payload: [UInt8]) throws {
    guard let text = try? PathUpPayload.read(payload.span) else { return }
    try require(text.utf8.count <= payload.count + 16 && !Text.holdsNul(text), "a path of \(text.utf8.count) bytes")
  }

  // MARK: - Messages

  /// A client's message, as a server takes and relays it, and as its recipient reads it then.
  private static func sendMessage(_ payload: [UInt8]) throws {
    guard let fields = try? MessageFields(reading: payload.span) else { return }
    try ProtobufLibrary.check(fields, payload)
    guard (try? fields.checkFromClient(payload.span)) != nil else { return }
    try require(Text.isUserName(fields.toUser(in: payload.span)), "to \(fields.toUser(in: payload.span))")
    try require(1...fields.order ~= fields.floor && fields.order < 1 << 40, "\(fields.floor), \(fields.order)")

    let relayed = EncodedMessage(relaying: payload.span, from: "alice", serverTime: 1_767_225_600_003).bytes
    try require(relayed.count <= WireLimits.headerBytes + payload.count + WireLimits.relayReserveBytes, "longer")
    let message: IncomingMessage
    do {
      message = try IncomingMessage(reading: Array(relayed.dropFirst(WireLimits.headerBytes)).span, transport: .udp)
    } catch {
      throw Violation(description: "taken by the server, and refused by the recipient: \(error)")
    }
    try require(message.from == "alice" && message.serverTime == 1_767_225_600_003, "from \(message.from)")
    try require(message.order == fields.order && message.floor == fields.floor, "another place in the conversation")
    try require(message.messageId == fields.messageId && message.device == fields.deviceNumber, "another message")
  }

  /// What a recipient reads, sent on by its application, reads the same.
  private static func receiveMessage(_ payload: [UInt8]) throws {
    guard let message = try? IncomingMessage(reading: payload.span, transport: .tcp) else { return }
    try ProtobufLibrary.check(try MessageFields(reading: payload.span), payload)
    let encoded = EncodedMessage(
      message.content, messageId: message.messageId, order: message.order, toUser: message.from)
    var packet: [UInt8] = []
    encoded.append(to: &packet, floor: message.floor)
    try require(message.content.isValidText, "text that may not be sent was taken in")
    let relayed = EncodedMessage(
      relaying: Array(packet.dropFirst(WireLimits.headerBytes)).span, from: message.from,
      serverTime: message.serverTime)
    let again = try? IncomingMessage(
      reading: Array(relayed.bytes.dropFirst(WireLimits.headerBytes)).span, transport: .tcp)
    // NaN is not equal to itself.
    var (one, other) = (message, again)
    let scales = (one.content.imageScale.bitPattern, other?.content.imageScale.bitPattern)
    one.content.imageScale = 0
    other?.content.imageScale = 0
    try require(scales.0 == scales.1 && one == other, "\(one) came back as \(other.map { "\($0)" } ?? "nothing")")
  }

  // MARK: - Seeds

  private static var seeds: [[UInt8]] {
    func payload(_ packet: [UInt8]) -> [UInt8] { Array(packet.dropFirst(WireLimits.headerBytes)) }
    var reply = LoginReply()
    reply.user = "alice"
    reply.deviceNumber = 3
    reply.udpPort = 7468
    reply.udpSecret = [UInt8](repeating: 7, count: 32)
    var replyBytes: [UInt8] = []
    reply.append(to: &replyBytes)
    var refusal: [UInt8] = []
    Refusal(.tokenExpired, "too late", retryAfterMilliseconds: 250).append(to: &refusal)
    var pathUp: [UInt8] = []
    PathUpPayload.append(.v4(127, 0, 0, 1, port: 4000), to: &pathUp)
    var content = MessageContent(text: "h\u{e9}llo", time: 7)
    content.attachment = Attachment()
    content.attachment?.url = "https://example.org/1"
    content.attachment?.sha256 = [UInt8](repeating: 9, count: 32)
    content.attachment?.size = 300
    content.attachment?.mime = "a/b"
    content.attachment?.width = 640
    content.attachment?.height = 480
    content.imageScale = 1.5
    content.custom = [0, 1, 2]
    let sent = EncodedMessage(content, messageId: 3 << 40 | 1, order: 2, toUser: "bob")
    var message: [UInt8] = []
    sent.append(to: &message, floor: 1)
    let relayed = EncodedMessage(relaying: payload(message).span, from: "alice", serverTime: 5).bytes
    var receipt: [UInt8] = []
    Receipt(
      datagrams: DatagramReceipt(ranges: [7...9, 3...5], delay: .milliseconds(1), answered: [4]),
      outcomes: [Outcome(.later, user: "bob", device: 3, orders: [1...5, 7...7], code: .noRoom)]
    ).append(to: &receipt)
    func request(_ request: SessionRequest) -> [UInt8] {
      var bytes: [UInt8] = []
      request.append(to: &bytes)
      return bytes
    }
    func answer(_ answer: SessionAnswer) -> [UInt8] {
      var bytes: [UInt8] = []
      answer.append(to: &bytes)
      return bytes
    }
    let counters = [SessionAnswer.Counter(name: "a", value: 300), SessionAnswer.Counter(name: "b", value: 0)]
    return [
      [8] + request(.renew(token: "t")), [9] + request(.kick(user: "bob", reason: "r")), [10],
      [11] + answer(.renewed(expires: 1, serverTime: 2)), [12] + answer(.kicked(issuedUntil: 1, isStored: true)),
      [13] + answer(.counters(counters)), [0] + payload(Packets.login), [1] + replyBytes, [2] + refusal,
      [3] + payload(Packets.ping), [4] + pathUp,
      [5] + receipt, [6] + payload(message), [7] + payload(relayed), [6] + payload(Packets.message(order: 1)),
    ]
  }
}
