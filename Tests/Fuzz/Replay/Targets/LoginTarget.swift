@testable import SimpCore

/// A server's session before its login, and any bytes: nothing of them reaches the server but a login, little is kept,
/// and what is answered is an error or the end.
enum LoginTarget {
  static let target = FuzzTarget(name: "login", maximumBytes: 384, seeds: { seeds }, run: run)

  private static func run(_ input: [UInt8]) throws {
    var script = InputReader(input)
    let rig = ServerRig()
    rig.loginAnswer = script.choice(3)
    var packetsIn = 0

    var stepsLeft = 4
    while !script.isAtEnd, stepsLeft > 0 {
      let wasOver = rig.session.isEnded
      if wasOver { stepsLeft -= 1 }
      let kind = script.byte()
      switch kind {
      case 0..<90:
        let piece = script.bytes(Int(script.byte()))
        packetsIn += 1 + piece.count / WireLimits.headerBytes
        try rig.receive(stream: piece)
      case 90..<170:
        let flags = PacketHeader.Flags(rawValue: UInt16(kind & 7 == 7 ? script.choice(8) : 0))
        let payload = script.bytes(Int(script.byte()))
        packetsIn += 1
        try rig.receive(stream: Packets.packet(Packets.command(&script), flags: flags, payload))
      case 170..<190:
        packetsIn += 1
        try rig.receive(stream: Packets.login)
      case 190..<210:
        rig.answerLogin()
        rig.session.continueReading(now: rig.now)
        try rig.flush()
      case 210..<220:
        // Much at once: what comes behind a login waits for its answer, up to a bound.
        let count = rig.waitingLogin == nil ? Int(script.choice(8)) : Int(script.byte())
        packetsIn += count
        try rig.receive(stream: [UInt8]((0..<count).map { _ in Packets.ping }.joined()))
      default:
        rig.now = rig.now + .milliseconds(Int64(script.byte()) * 50)
        try rig.flush()
      }
      try require(!wasOver || rig.written.isEmpty, "something is said after the end")
      guard !rig.isLoggedIn else { break }
      for header in rig.written {
        let isRefusal = header.flags == [.response, .error] || header.command == .ended
        try require(isRefusal, "\(header) before the login")
      }
      try require(rig.written.count <= packetsIn + 1, "\(rig.written.count) answers to \(packetsIn) packets")
    }
    try require(!rig.isLoggedIn || rig.loginAnswer != 2, "logged in though refused")
  }

  private static var seeds: [[UInt8]] {
    let login = Packets.login
    let half = login.count / 2
    return [
      [0, 0, UInt8(half)] + login[..<half] + [0, UInt8(login.count - half)] + login[half...],
      [1, 180, 0, 25] + Packets.ping + [200, 220, 4], [2, 0, 25] + Packets.ping + [180, 220, 250],
      [1, 180, 220, 250, 220, 250], [1, 180, 210, 255, 211, 100, 200], [1, 180, 210, 255, 210, 255, 220, 1],
      [0, 100, 4, 0x0A, 2, 0xC0, 0x80, 0, 100, 3, 9, 9, 9, 2],
    ]
  }
}
