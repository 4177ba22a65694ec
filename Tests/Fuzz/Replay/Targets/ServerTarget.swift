@testable import SimpCore

/// A server's session after its login, with a client that sends what it likes on both channels and from several
/// addresses: only messages by the rules reach the server, and no address gets more than it may.
enum ServerTarget {
  static let target = FuzzTarget(name: "server", maximumBytes: 160, seeds: { seeds }, run: run)

  private static let addresses: [PeerAddress] = (1...3).map { .v4(127, 0, 0, $0, port: 4000) }
  private static func run(_ input: [UInt8]) throws {
    var script = InputReader(input)
    let rig = ServerRig()
    try rig.receive(stream: Packets.login)
    var nextNumber: UInt64 = 0
    var phase: UInt8 = 0
    var delivered: UInt64 = 0

    // What comes after the end finds nothing: a few steps say that as well as many.
    var stepsLeft = 4
    while !script.isAtEnd, stepsLeft > 0 {
      if rig.session.isEnded { stepsLeft -= 1 }
      let kind = script.byte()
      if kind & 7 == 0 { rig.verdict = kind & 8 == 0 ? .held : .later(.noRoom, retryAfter: .milliseconds(100)) }
      switch kind {
      case 0..<60:
        try rig.receive(stream: packet(&script, rig))
      case 60..<75:
        try rig.receive(stream: script.bytes(Int(script.byte())))
      case 75..<175:
        let address = addresses[Int(kind % 3)]
        let number = kind & 15 == 15 ? script.number() : nextNumber
        nextNumber = max(nextNumber, number &+ 1)
        var datagram: [UInt8] = []
        if kind & 15 == 14 { phase &+= 1 }
        let header = DatagramHeader(
          connectionId: ServerRig.connectionId, packetNumber: number, isOddPhase: phase & 1 == 1)
        header.append(to: &datagram)
        datagram += packet(&script, rig, from: address)
        if kind & 16 != 0 { datagram += packet(&script, rig) }
        OpenProtection.appendTag(isServer: false, phase: phase, to: &datagram)
        try rig.receive(datagram: datagram, from: address)
      case 175..<180:
        try rig.receive(datagram: script.bytes(Int(script.byte())), from: addresses[Int(kind % 3)])
      case 180..<205:
        guard rig.session.isActive, rig.session.hasRoom(bytes: 200) else { continue }
        delivered += 1
        let payload = Array(Packets.message(order: delivered).dropFirst(WireLimits.headerBytes))
        rig.session.deliver(
          MessageKey(conversation: 1, order: delivered),
          EncodedMessage(relaying: payload.span, from: "bob", serverTime: 1))
      default:
        rig.now = rig.now + .milliseconds(Int64(script.byte()) * Int64(1 << (kind & 7)))
        try rig.flush()
      }
      try require(rig.session.pendingMessages <= Int(delivered), "more is under way than was handed over")
    }
  }

  /// A packet that is mostly well-formed.
  private static func packet(
    _ script: inout InputReader, _ rig: ServerRig, from address: PeerAddress? = nil
  ) -> [UInt8] {
    let form = script.byte()
    switch form {
    case 0..<80:
      let user = ["bob", "carol", "", "a b"][Int(form & 3)]
      let order = script.number()
      let floor = form & 4 == 0 ? order - min(order, UInt64(form >> 3)) : script.number()
      return Packets.message(order: order, floor: floor, device: form == 79 ? 4 : 3, to: user)
    case 80..<120:
      return Packets.receipt(receipt(&script))
    case 120..<150:
      // A token that the server sent there, or to another address.
      let other = addresses[Int(form & 3) % addresses.count]
      let known = form & 4 == 0 ? address.flatMap { rig.challenge(to: $0) } : rig.challenge(to: other)
      return Packets.packet(.pathResponse, token(known ?? script.number()))
    case 150..<180:
      let padding = [UInt8](repeating: 0, count: form & 1 == 0 ? 1140 : Int(script.byte()))
      var payload = Self.token(script.number() | 1)
      payload.appendField(2, bytes: padding)
      return Packets.packet(.pathChallenge, payload)
    case 180..<190:
      return Packets.request(form, user: "bob", reason: Int(script.choice(2)) * 250 + Int(script.choice(64)))
    default:
      let flags = PacketHeader.Flags(rawValue: UInt16(form & 7))
      return Packets.packet(Packets.command(&script), flags: flags, script.bytes(Int(script.choice(64))))
    }
  }

  static func receipt(_ script: inout InputReader) -> Receipt {
    var receipt = Receipt()
    let form = script.byte()
    if form & 1 == 0 {
      let largest = script.number()
      let run = min(largest, UInt64(script.choice(32)))
      receipt.datagrams = DatagramReceipt(
        ranges: [largest - run...largest], delay: .milliseconds(Int64(form)),
        answered: form & 2 == 0 ? [] : [largest])
    }
    if form & 4 == 0 {
      let state = MessageState(rawValue: UInt32(form >> 4 & 7)) ?? .delivered
      let first = script.number()
      let last = first.addingReportingOverflow(UInt64(script.byte()))
      receipt.outcomes = [
        Outcome(
          state, user: form & 8 == 0 ? "bob" : "carol", device: form & 8 == 0 ? 0 : 3,
          orders: [first...(last.overflow ? first : last.partialValue)], code: .noRoom,
          retryAfterMilliseconds: UInt32(form) * 10)
      ]
    }
    return receipt
  }

  static func token(_ token: UInt64) -> [UInt8] {
    var payload: [UInt8] = []
    payload.appendField(1, fixed64: token)
    return payload
  }

  private static var seeds: [[UInt8]] {
    [
      [75, 150, 9, 220, 1, 75, 120, 220, 1, 75, 1, 1, 75, 4, 2, 1, 220, 5, 255, 200],
      [0, 1, 1, 0, 2, 2, 220, 10, 185, 186, 187, 220, 5, 0, 80, 1, 1, 2, 220, 100],
      [75, 150, 9, 76, 150, 7, 77, 150, 5, 220, 1, 76, 120, 76, 1, 1, 77, 3, 1, 220, 1, 77, 120, 220, 3],
      // A ping that wants its echo; and bad tags until UDP ends.
      [75, 150, 9, 220, 1, 75, 120, 220, 1, 75, 200, 2, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8, 220, 1, 75, 1, 1, 220, 1],
      [75, 150, 9, 220, 1, 75, 120, 190, 220, 1, 175, 40, 175, 40, 220, 1],
      [0, 180, 0, 9, 0, 181, 1, 5, 0, 181, 1, 63, 0, 182, 0, 0, 220, 1, 220, 255],
      [75, 150, 1, 220, 1, 75, 120, 190, 191, 192, 220, 1, 75, 80, 4, 2, 1, 227, 255, 227, 255, 227, 255, 227, 255],
    ]
  }
}
