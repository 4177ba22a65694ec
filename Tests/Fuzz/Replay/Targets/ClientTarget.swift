@testable import SimpCore

/// A client's session and a server that sends what it likes on both channels: the application sees each message once
/// and in order, its own messages finish once, and what leaves is by the rules.
enum ClientTarget {
  static let target = FuzzTarget(name: "client", maximumBytes: 160, seeds: { seeds }, run: run)

  private static func run(_ input: [UInt8]) throws {
    var script = InputReader(input)
    let rig = ClientRig()
    var nextNumber: UInt64 = 0
    var phase: UInt8 = 0
    if script.byte() & 1 == 0 { try rig.receive(stream: loginReply(&script)) }

    // What comes after the end finds nothing, until the client connects again.
    var stepsLeft = 8
    while !script.isAtEnd, stepsLeft > 0 {
      if rig.isOver { stepsLeft -= 1 }
      let kind = script.byte()
      switch kind {
      case 0..<70:
        try rig.receive(stream: packet(&script, rig))
      case 70..<80:
        try rig.receive(stream: script.bytes(Int(script.byte())))
      case 80..<160:
        let number = kind & 15 == 15 ? script.number() : nextNumber
        nextNumber = max(nextNumber, number &+ 1)
        if kind & 15 == 14 { phase &+= 1 }
        var datagram: [UInt8] = []
        let header = DatagramHeader(
          connectionId: ServerRig.connectionId, packetNumber: number, isOddPhase: phase & 1 == 1)
        header.append(to: &datagram)
        datagram += packet(&script, rig)
        if kind & 16 != 0 { datagram += packet(&script, rig) }
        OpenProtection.appendTag(isServer: true, phase: phase, to: &datagram)
        try rig.receive(datagram: datagram)
      case 160..<165:
        try rig.receive(datagram: script.bytes(Int(script.byte())))
      case 165..<190:
        try rig.send(to: kind & 1 == 0 ? "bob" : "carol", isLong: kind & 6 == 6)
      case 190..<200:
        try rig.take()
      case 200..<205:
        rig.ask(kind)
      case 205..<210:
        try rig.reconnect()
        if script.byte() & 1 == 0 { try rig.receive(stream: loginReply(&script)) }
        (nextNumber, phase) = (0, 0)
      default:
        rig.now = rig.now + .milliseconds(Int64(script.byte()) * Int64(1 << (kind & 7)))
        try rig.flush()
      }
    }
  }

  private static func loginReply(_ script: inout InputReader) -> [UInt8] {
    var reply = LoginReply()
    reply.user = "alice"
    reply.deviceNumber = 3
    reply.connectionId = ServerRig.connectionId
    reply.udpPort = 7468
    reply.udpSecret = [UInt8](repeating: 7, count: 32)
    reply.cipher = 1
    let form = script.byte()
    if form & 3 == 3 { reply.deviceNumber = UInt32(truncatingIfNeeded: script.number()) }
    if form & 12 == 12 { reply.maximumPacketBytes = UInt32(truncatingIfNeeded: script.number()) }
    if form & 48 == 48 { reply.idleTimeoutMilliseconds = UInt32(truncatingIfNeeded: script.number()) }
    if form & 192 == 192 { reply.tcpKeepAliveMilliseconds = UInt32(truncatingIfNeeded: script.number()) }
    var payload: [UInt8] = []
    reply.append(to: &payload)
    return Packets.packet(.login, flags: .response, sequence: 1, payload)
  }

  private static func packet(_ script: inout InputReader, _ rig: ClientRig) -> [UInt8] {
    let form = script.byte()
    switch form {
    case 0..<100:
      let order = 1 + script.number() % (1 << 40 - 1)
      let floor = form & 4 == 0 ? max(1, order - min(order, UInt64(form >> 3))) : script.number()
      let sent = Packets.message(order: order, floor: floor, device: 1 + UInt64(form & 3), to: "alice")
      let payload = Array(sent.dropFirst(WireLimits.headerBytes))
      return EncodedMessage(relaying: payload.span, from: form & 8 == 0 ? "bob" : "carol", serverTime: 1).bytes
    case 100..<160:
      return Packets.receipt(ServerTarget.receipt(&script))
    case 160..<164:
      return Packets.packet(.pathUp, pathUp)
    case 164..<180:
      let token = form & 1 == 0 ? rig.challenge ?? 1 : script.number()
      return Packets.packet(.pathResponse, ServerTarget.token(token))
    default:
      let flags = PacketHeader.Flags(rawValue: UInt16(form & 7))
      return Packets.packet(
        Packets.command(&script), flags: flags, sequence: UInt16(form), script.bytes(Int(script.choice(64))))
    }
  }

  private static let pathUp: [UInt8] = {
    var payload: [UInt8] = []
    PathUpPayload.append(.v4(127, 0, 0, 1, port: 4000), to: &payload)
    return payload
  }()

  private static var seeds: [[UInt8]] {
    [
      [0, 0, 165, 166, 220, 1, 80, 160, 220, 1, 0, 100, 64, 1, 1, 220, 100, 0, 0, 1, 190, 220, 200],
      [0, 0, 80, 160, 220, 1, 80, 0, 2, 80, 0, 1, 80, 8, 5, 190, 191, 255, 255, 205, 0, 0, 0, 0, 3],
      [1, 0, 200, 3, 1, 1, 1, 220, 255, 205, 0, 0, 165, 220, 5, 0, 104, 0, 1, 220, 5],
      // Outcomes of each kind for some of the messages to one user.
      [0, 0, 166, 168, 170, 172, 220, 1, 0, 100, 65, 2, 0, 0, 100, 17, 2, 1, 0, 100, 97, 3, 1, 220, 1],
      [0, 0, 166, 168, 166, 220, 1, 0, 100, 33, 1, 0, 220, 200, 0, 100, 17, 1, 2, 220, 9, 0, 100, 49, 3, 0, 220, 1],
      [0, 0, 200, 201, 202, 203, 0, 201, 10, 0, 0, 201, 12, 0, 0, 203, 11, 0, 220, 1, 204, 0, 201, 1, 0, 220, 1],
      // Accepted, and not finished for long; put off, and caught up; a gap that is passed over.
      [0, 0, 168, 220, 1, 0, 100, 17, 1, 0, 223, 50, 220, 1, 223, 100, 220, 1],
      [0, 0, 168, 168, 170, 220, 1, 0, 100, 33, 1, 1, 223, 10, 0, 100, 17, 1, 0, 220, 1],
      [0, 0, 0, 16, 4, 223, 80, 220, 1, 223, 80, 220, 1, 0, 16, 3, 220, 1],
      [0, 0, 80, 164, 220, 1, 0, 160, 166, 166, 220, 1, 80, 100, 1, 2, 0, 80, 200, 4, 0, 220, 255, 223, 255, 223, 255],
      [0, 0, 165, 80, 160, 220, 1, 80, 100, 1, 2, 0, 116, 32, 1, 0, 220, 50, 227, 255, 227, 255, 227, 255],
    ]
  }
}
