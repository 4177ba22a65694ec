@testable import SimpCore

/// A server's session with an owner that says what the test tells it to.
final class SessionRig: ServerSessionOwner {
  static let start = Instant(nanoseconds: 1_000_000_000)

  private(set) var session: ServerSession!
  var verdict = MessageVerdict.held
  var acceptsLogins = true
  var protection: NumberedProtection?
  private(set) var received: [MessageFields] = []
  private(set) var reported: [Outcome] = []
  private(set) var endings: [Refusal] = []
  /// How often it was told that a path is proven.
  private(set) var paths = 0

  init() { session = ServerSession(id: 1, owner: self, now: Self.start) { 4 } }

  func session(_ session: ServerSession, wantsLogin login: Login, now: Instant) {
    guard acceptsLogins else { return }
    var reply = LoginReply()
    reply.user = "alice"
    reply.deviceNumber = 3
    reply.sessionEpoch = 1
    if protection != nil { reply.connectionId = 7 }
    session.accept(reply, login: login, protection: protection, now: now)
  }

  func session(
    _ session: ServerSession, received fields: MessageFields, payload: Span<UInt8>, now: Instant
  ) -> MessageVerdict {
    received.append(fields)
    return verdict
  }

  func session(_ session: ServerSession, reported outcome: Outcome, now: Instant) { reported.append(outcome) }
  func session(_ session: ServerSession, provedPath address: PeerAddress, now: Instant) { paths += 1 }
  func sessionPathWentDown(_ session: ServerSession, now: Instant) {}
  func session(_ session: ServerSession, endedWith refusal: Refusal, now: Instant) { endings.append(refusal) }

  // MARK: - What a test does

  struct Packet {
    var header: PacketHeader
    var payload: [UInt8]

    var refusal: Refusal? { try? Refusal(reading: payload.span) }
    var receipt: Receipt? { try? Receipt(reading: payload.span) }
  }

  /// Feeds bytes, lets `later` pass, and gives the packets that leave.
  func packets(for bytes: [UInt8], after later: Interval = .zero) -> [Packet] {
    session.receive(stream: bytes.span, now: Self.start)
    session.flush(now: Self.start + later, streamRoom: 1 << 20) { _, _ in }
    return Self.packets(in: session.takeStream())
  }

  static func packets(in stream: [UInt8]) -> [Packet] {
    var assembler = PacketAssembler(limit: WireLimits.maximumPacketBytes)
    assembler.append(stream.span)
    var found: [Packet] = []
    while let packet = try? assembler.next(), let header = try? PacketHeader(reading: packet.span, limit: packet.count)
    {
      found.append(Packet(header: header, payload: Array(packet[16...])))
    }
    return found
  }

  static func packet(
    _ command: Command, flags: PacketHeader.Flags = [], sequence: UInt16 = 9, _ payload: [UInt8] = []
  ) -> [UInt8] {
    var bytes: [UInt8] = []
    PacketWriter.append(command, flags: flags, sequence: sequence, to: &bytes) { $0 += payload }
    return bytes
  }

  static var login: [UInt8] {
    var login = Login()
    login.token = "t"
    login.outboxId = 5
    var payload: [UInt8] = []
    login.append(to: &payload)
    return packet(.login, payload)
  }

  static func message(
    order: UInt64 = 1, floor: UInt64 = 1, device: UInt64 = 3, to user: String = "bob", text: String = "hi",
    more: [UInt8] = []
  ) -> [UInt8] {
    let message = EncodedMessage(
      MessageContent(text: text), messageId: device << 40 | order, order: order, toUser: user)
    var bytes: [UInt8] = []
    message.append(to: &bytes, floor: floor)
    return packet(.message, Array(bytes[16...]) + more)
  }
}
