@testable import SimpCore

/// Valid bytes to start from, and to put broken ones into.
enum Packets {
  static func packet(
    _ command: Command, flags: PacketHeader.Flags = [], sequence: UInt16 = 9, _ payload: [UInt8] = []
  ) -> [UInt8] {
    var bytes: [UInt8] = []
    PacketWriter.append(command, flags: flags, sequence: sequence, to: &bytes) { $0 += payload }
    return bytes
  }

  static var ping: [UInt8] { packet(.ping, [0x09, 1, 2, 3, 4, 5, 6, 7, 8]) }

  private static let commands: [Command] = [
    .login, .logout, .ping, .ended, .pathChallenge, .pathResponse, .pathUp, .probeRequest, .message, .receipt, .renew,
    .kick, .counters,
  ]

  /// Any command.
  static func command(_ script: inout InputReader) -> Command { commands[Int(script.choice(UInt8(commands.count)))] }

  /// RENEW, KICK or COUNTERS, by `form`.
  static func request(_ form: UInt8, user: String, reason bytes: Int) -> [UInt8] {
    let text = String(repeating: "x", count: bytes)
    let request: SessionRequest =
      switch form % 3 {
      case 0: .renew(token: text)
      case 1: .kick(user: user, reason: text)
      default: .counters
      }
    var payload: [UInt8] = []
    request.append(to: &payload)
    return packet(request.command, payload)
  }

  static func message(order: UInt64, floor: UInt64 = 1, device: UInt64 = 3, to user: String = "bob") -> [UInt8] {
    let content = MessageContent(text: "hi", time: 1_767_225_600_000)
    let message = EncodedMessage(content, messageId: device << 40 | order, order: order, toUser: user)
    var bytes: [UInt8] = []
    message.append(to: &bytes, floor: floor)
    return bytes
  }

  static let login: [UInt8] = {
    var login = Login()
    login.token = "good"
    login.outboxId = 5
    login.software = "fuzz/1"
    login.ciphers = [1, 2]
    var payload: [UInt8] = []
    login.append(to: &payload)
    return packet(.login, payload)
  }()

  static func receipt(_ receipt: Receipt) -> [UInt8] {
    var payload: [UInt8] = []
    receipt.append(to: &payload)
    return packet(.receipt, payload)
  }

  /// Looks at each packet of what the library wrote itself, which ends with a whole one. Without a copy: this is most of
  /// what a run costs.
  static func split(_ written: Span<UInt8>, look: (PacketHeader, Span<UInt8>) throws -> Void) throws {
    var start = 0
    while start < written.count {
      let rest = written.extracting(start..<written.count)
      try require(rest.count >= WireLimits.headerBytes, "half a header was written")
      let header = try PacketHeader(reading: rest, limit: WireLimits.maximumPacketBytes)
      try require(Int(header.length) <= rest.count, "half a packet was written")
      try look(header, rest.extracting(WireLimits.headerBytes..<Int(header.length)))
      start += Int(header.length)
    }
  }
}
