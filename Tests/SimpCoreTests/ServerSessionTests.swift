import Testing

@testable import SimpCore

@Suite struct ServerSessionTests {
  private let start = SessionRig.start

  private func loggedIn() -> SessionRig {
    let rig = SessionRig()
    let answer = rig.packets(for: SessionRig.login)
    #expect(answer.count == 1 && answer[0].header.command == .login && answer[0].header.flags == .response)
    #expect(answer[0].header.sequence == 9)
    return rig
  }

  @Test func beforeTheLoginNothingElseIsDone() {
    let rig = SessionRig()
    for command: Command in [.ping, .message, .receipt, .logout] {
      let answer = rig.packets(for: SessionRig.packet(command))
      #expect(answer.first?.refusal?.code == .notLoggedIn && answer.first?.header.flags == [.response, .error])
    }
    #expect(rig.packets(for: SessionRig.login).first?.header.flags == .response)
    #expect(rig.session.isActive && rig.received.isEmpty)
  }

  @Test func aLoginHasTenSeconds() {
    let rig = SessionRig()
    #expect(rig.session.deadline(now: start) == start + .seconds(10))
    #expect(rig.packets(for: [], after: .milliseconds(9999)).isEmpty)
    let ended = rig.packets(for: [], after: .seconds(10))
    #expect(ended.first?.header.command == .ended && ended.first?.refusal?.code == .timedOut)
    #expect(rig.endings.count == 1 && rig.session.deadline(now: start) == .never)
  }

  @Test func aLoginUnderWayTimesOutToo() {
    let rig = SessionRig()
    rig.acceptsLogins = false
    #expect(rig.packets(for: SessionRig.login).isEmpty)
    #expect(rig.packets(for: [], after: .seconds(10)).first?.header.command == .ended)
  }

  @Test func whatFollowsALoginUnderWayWaitsForIt() {
    let rig = SessionRig()
    rig.acceptsLogins = false
    #expect(rig.packets(for: SessionRig.login + SessionRig.packet(.ping)).isEmpty)
    rig.acceptsLogins = true
    rig.session(rig.session, wantsLogin: Login(), now: start)
    rig.session.continueReading(now: start)
    #expect(SessionRig.packets(in: rig.session.takeStream()).map(\.header.command) == [.login, .ping])
  }

  @Test func whoSendsTooMuchBeforeItsLoginIsAnsweredIsSentAway() {
    let rig = SessionRig()
    rig.acceptsLogins = false
    _ = rig.packets(for: SessionRig.login)
    let flood = [UInt8](repeating: 0, count: 4 * WireLimits.maximumPacketBytesBeforeLogin + 1)
    #expect(rig.packets(for: flood).first?.header.command == .ended)
  }

  @Test func aBrokenHeaderEndsTheSession() {
    let cases: [(Int, [UInt8], ErrorCode)] = [
      (0, [0, 0, 0, 15], .tooLarge), (0, [0xFF, 0xFF, 0xFF, 0xFF], .tooLarge), (0, [0, 4, 0, 1], .tooLarge),
      (4, [0, 2], .unsupportedVersion), (6, [0, 8], .unknownFlags), (14, [0, 1], .malformed),
    ]
    for (offset, bytes, code) in cases {
      let rig = loggedIn()
      var packet = SessionRig.packet(.ping)
      packet.replaceSubrange(offset..<offset + bytes.count, with: bytes)
      let answer = rig.packets(for: packet)
      #expect(answer.map(\.header.command) == [.ended] && answer.first?.refusal?.code == code, "\(bytes)")
      #expect(rig.endings.count == 1 && rig.packets(for: SessionRig.packet(.ping)).isEmpty)
    }
  }

  @Test func beforeTheLoginFourKiBAreTheLimit() {
    let rig = SessionRig()
    let large = SessionRig.packet(.login, [UInt8](repeating: 0, count: 4096 - 15))
    #expect(rig.packets(for: Array(large[..<4])).first?.refusal?.code == .tooLarge)
  }

  @Test func whatIsUnknownOrBrokenIsAnsweredAndTheSessionLives() {
    let rig = loggedIn()
    var unknown: [UInt8] = []
    PacketWriter.append(service: 7, number: 1, flags: [], sequence: 77, to: &unknown) { _ in }
    let cases: [([UInt8], ErrorCode)] = [
      (unknown, .unknownCommand), (SessionRig.packet(.ended), .unknownCommand),
      (SessionRig.packet(.ping, [0x09, 1]), .malformed), (SessionRig.packet(.message, [0x10]), .malformed),
      (SessionRig.packet(.receipt, [0x0A, 0x05]), .malformed), (SessionRig.login, .malformed),
      (SessionRig.packet(.message, [0x22, 2, 0xC0, 0x80]), .textInvalid),
      // Relayed, an attachment that cannot be read would cost its recipient the connection.
      (SessionRig.message(more: [0x72, 2, 0x32, 0]), .malformed),
      (SessionRig.message(more: [0x72, 2, 0x08, 1]), .malformed),
    ]
    for (bytes, code) in cases {
      let answer = rig.packets(for: bytes)
      #expect(answer.count == 1 && answer.first?.refusal?.code == code && !rig.session.isEnded, "\(bytes)")
    }
    #expect(rig.packets(for: SessionRig.packet(.ping, [0x09, 1, 0, 0, 0, 0, 0, 0, 0])).first?.payload.count == 9)
  }

  @Test(arguments: [[.response], [.response, .error]] as [PacketHeader.Flags]) func aResponseIsNeverAnswered(
    flags: PacketHeader.Flags
  ) {
    let rig = loggedIn()
    for command: Command in [.ping, .logout, .login, .ended, .pathUp] {
      #expect(rig.packets(for: SessionRig.packet(command, flags: flags)).isEmpty, "\(command)")
      #expect(rig.packets(for: SessionRig.packet(command, flags: flags, [0x0A, 9])).isEmpty, "broken \(command)")
    }
    #expect(!rig.session.isEnded)
  }

  @Test func acceptedIsSaidOfWhatIsHeld() {
    let rig = loggedIn()
    #expect(rig.packets(for: SessionRig.message()).isEmpty)
    let answer = rig.packets(for: [], after: .milliseconds(5))
    #expect(answer.first?.receipt?.outcomes == [Outcome(.accepted, user: "bob", orders: [1...1])])
  }

  @Test func laterAndRejectedAreSaidAtOnce() {
    let rig = loggedIn()
    rig.verdict = .later(.notOnline, retryAfter: .seconds(1))
    let later = Outcome(.later, user: "bob", orders: [1...1], code: .notOnline, retryAfterMilliseconds: 1000)
    #expect(rig.packets(for: SessionRig.message()).first?.receipt?.outcomes == [later])
    rig.verdict = .rejected(.noRoom)
    let rejected = Outcome(.rejected, user: "bob", orders: [2...2], code: .noRoom)
    let answer = rig.packets(for: SessionRig.message(order: 2), after: .milliseconds(100))
    #expect(answer.first?.receipt?.outcomes == [rejected])
  }

  @Test func whatBreaksARuleIsRejectedAndNobodyIsAsked() {
    let window = WireLimits.orderWindow
    let cases: [([UInt8], ErrorCode)] = [
      (SessionRig.message(device: 4), .deviceMismatch),
      (SessionRig.message(order: window + 1), .outsideWindow),
      (SessionRig.message(more: [0x32, 3, 0x62, 0x6F, 0x62]), .fieldForbidden),
      (SessionRig.message(more: [0x32, 0]), .fieldForbidden),
      (SessionRig.message(more: [0x50, 0]), .fieldForbidden),
      (SessionRig.message(order: 2, floor: 3), .malformed),
      // Two attachments: Protobuf makes one of them, and not every reader does.
      (SessionRig.message(more: [0x72, 2, 0x18, 1, 0x72, 2, 0x28, 1]), .malformed),
    ]
    for (bytes, code) in cases {
      let rig = loggedIn()
      let outcomes = rig.packets(for: bytes, after: .milliseconds(5)).first?.receipt?.outcomes
      #expect(outcomes?.first?.state == .rejected && outcomes?.first?.code == code, "\(code)")
      #expect(rig.received.isEmpty)
    }
    let rig = loggedIn()
    #expect(rig.packets(for: SessionRig.message(order: window)).isEmpty && rig.received.count == 1)
  }

  @Test func onlyWhatARecipientMaySayIsPassedOn() {
    let rig = loggedIn()
    var receipt = Receipt()
    for state: UInt32 in 0...7 {
      receipt.outcomes.append(Outcome(MessageState(rawValue: state) ?? .unspecified, user: "bob", orders: [1...1]))
    }
    var payload: [UInt8] = []
    receipt.append(to: &payload)
    _ = rig.packets(for: SessionRig.packet(.receipt, payload))
    #expect(Set(rig.reported.map(\.state)) == [.later, .delivered, .read])
  }

  @Test func silenceEndsASession() {
    let rig = loggedIn()
    #expect(rig.session.deadline(now: start) == start + WireTimes.idleTimeout)
    rig.session.flush(now: start + .seconds(74), streamRoom: 1) { _, _ in }
    #expect(!rig.session.isEnded)
    rig.session.flush(now: start + .seconds(75), streamRoom: 1) { _, _ in }
    #expect(rig.session.isEnded && rig.endings.first?.code == .timedOut)
  }

  @Test func aGoodbyeIsAnsweredAndIsTheEnd() {
    let rig = loggedIn()
    let answer = rig.packets(for: SessionRig.packet(.logout, [0x09, 7, 0, 0, 0, 0, 0, 0, 0]) + SessionRig.message())
    #expect(answer.map(\.header.command) == [.logout] && answer.first?.payload.first == 0x09)
    #expect(rig.endings.count == 1 && rig.received.isEmpty)
  }
}
