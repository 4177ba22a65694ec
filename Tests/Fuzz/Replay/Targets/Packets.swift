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

  static func message(order: UInt64, floor: UInt64 = 1, device: UInt64 = 3, to user: String = "bob") -> [UInt8] {
    let content = MessageContent(text: "hi", time: 1_767_225_600_000)
    let message = EncodedMessage(content, messageId: device << 40 | order, order: order, toUser: user)
    var bytes: [UInt8] = []
    message.append(to: &bytes, floor: floor)
    return bytes
  }

  static func login(token: String = "good") -> [UInt8] {
    var login = Login()
    login.token = token
    login.outboxId = 5
    login.software = "fuzz/1"
    login.ciphers = [1, 2]
    var payload: [UInt8] = []
    login.append(to: &payload)
    return packet(.login, payload)
  }

  static func receipt(_ receipt: Receipt) -> [UInt8] {
    var payload: [UInt8] = []
    receipt.append(to: &payload)
    return packet(.receipt, payload)
  }

  /// All packets of a stream that the library wrote itself.
  static func split(_ stream: [UInt8]) throws -> [(header: PacketHeader, payload: [UInt8])] {
    var assembler = PacketAssembler(limit: WireLimits.maximumPacketBytes)
    assembler.append(stream.span)
    var packets: [(header: PacketHeader, payload: [UInt8])] = []
    while let packet = try assembler.next() {
      let header = try PacketHeader(reading: packet.span, limit: packet.count)
      packets.append((header, Array(packet[WireLimits.headerBytes...])))
    }
    try require(assembler.bufferedBytes == 0, "half a packet was written")
    return packets
  }
}
