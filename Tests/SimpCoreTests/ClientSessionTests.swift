import Testing

@testable import SimpCore

@Suite struct ClientSessionTests {
  private let start = SessionRig.start
  private let outbox = Outbox(id: 5)

  private func session() -> ClientSession {
    var login = Login()
    login.token = "t"
    return ClientSession(login, outbox: outbox, inbound: InboundMessages(roomMessages: 10), now: start)
  }

  private func loggedIn(_ change: (inout LoginReply) -> Void = { _ in }) -> ClientSession {
    let session = session()
    _ = session.takeStream()
    var reply = LoginReply()
    reply.user = "alice"
    reply.deviceNumber = 3
    change(&reply)
    var payload: [UInt8] = []
    reply.append(to: &payload)
    _ = receive(SessionRig.packet(.login, flags: .response, sequence: 1, payload), session)
    #expect(session.isActive && outbox.deviceNumber == 3)
    return session
  }

  /// Feeds bytes at an instant, and names what happened.
  private func receive(_ bytes: [UInt8], _ session: ClientSession, after later: Interval = .zero) -> [String] {
    if !bytes.isEmpty { session.receive(stream: bytes.span, now: start + later) }
    session.flush(now: start + later, streamRoom: 1 << 20) { _, _ in }
    return session.takeEvents().map { event in
      switch event {
      case .loggedIn: "logged in"
      case .ended(let refusal): "ended \(refusal.code.rawValue)"
      case .message(let message): "message \(message.order)"
      case .accepted(let key, _, _): "accepted \(key.order)"
      case .later(let key, _, _): "later \(key.order)"
      case .finished(let key, let state, _, _, _): "\(state) \(key.order)"
      case .followed(_, let state, let orders):
        "\(state) behind the end \(orders.map { "\($0.lowerBound)-\($0.upperBound)" })"
      case .pathUp: "path up"
      case .pathDown: "path down"
      case .pong(let token, _): "pong \(token)"
      case .answered(let number, _): "answered \(number)"
      case .failed: "failed"
      }
    }
  }

  /// A datagram from the server with these packets in it, the first of its session.
  private func receive(datagram packets: [UInt8], _ session: ClientSession) -> [String] {
    session.startUDP(NumberedProtection(isServer: false), server: .v4(192, 0, 2, 9, port: 7468), seed: 4, now: start)
    var bytes: [UInt8] = []
    DatagramHeader(connectionId: 0, packetNumber: 0).append(to: &bytes)
    bytes += packets
    NumberedProtection(isServer: true).seal(&bytes, packetNumber: 0)
    var span = bytes.mutableSpan
    session.receive(datagram: &span, now: start)
    return session.takeEvents().map { event in
      if case .ended = event { "ended" } else if case .pong = event { "pong" } else { "other" }
    }
  }

  @Test func aGoodbyeIsAnsweredByTCPAlone() {
    let goodbye = SessionRig.packet(.logout, flags: .response)
    let session = loggedIn()
    // The pong shows that the datagram was read to its end.
    let pong = SessionRig.packet(.ping, flags: .response)
    #expect(receive(datagram: goodbye + goodbye + pong, session) == ["pong"])
    #expect(session.isActive)
    #expect(receive(goodbye + goodbye, session) == ["ended 0"])
  }

  /// Times told: keep-alive, idle timeout, and the seconds that a client makes of the first.
  @Test(arguments: [(0, 0, 30), (1, 1, 1), (999, 3000, 1), (2000, 75_000, 2)])
  func aServerCannotKeepAClientBusy(keepAlive: UInt32, idle: UInt32, seconds: Int64) {
    let session = loggedIn {
      $0.tcpKeepAliveMilliseconds = keepAlive
      $0.idleTimeoutMilliseconds = idle
    }
    #expect(session.isActive && session.takeStream().isEmpty)
    #expect(session.deadline(now: start) == start + .seconds(seconds))
  }

  /// What bob sent, as the server passes it on.
  private func message(_ order: UInt64) -> [UInt8] {
    var encoded: [UInt8] = []
    let message = EncodedMessage(
      MessageContent(text: "\(order)"), messageId: 4 << 40 | order, order: order, toUser: "alice")
    message.append(to: &encoded, floor: 1)
    let relayed = EncodedMessage(relaying: Array(encoded[16...]).span, from: "bob", serverTime: 9)
    return SessionRig.packet(.message, Array(relayed.bytes[16...]))
  }

  private func commands(_ session: ClientSession) -> [Command?] {
    SessionRig.packets(in: session.takeStream()).map(\.header.command)
  }

  /// A server that was stopped for 15 s, with the message that closes the gap in its hands.
  @Test func noGapIsPassedOverWhileTheServerIsSilent() {
    let session = loggedIn()
    #expect(receive(message(1) + message(3), session) == ["message 1"])
    _ = commands(session)
    let due = session.deadline(now: start)
    #expect(due == start + .seconds(10))
    #expect(receive([], session, after: .seconds(10)) == [] && commands(session) == [.ping])
    // It is asked once, and its answer is what is waited for.
    #expect(session.deadline(now: start + .seconds(10)) > start + .seconds(20))
    #expect(receive([], session, after: .seconds(14)) == [] && commands(session) == [])
    let pong = SessionRig.packet(.ping, flags: .response, sequence: 2)
    #expect(receive(pong, session, after: .seconds(15)) == ["pong 0"])
    #expect(receive(message(2), session, after: .milliseconds(15_200)) == ["message 2", "message 3"])
  }

  @Test func aGapIsPassedOverWhenASilentServerAnswersWithoutWhatIsMissing() {
    let session = loggedIn()
    #expect(receive(message(1) + message(3), session) == ["message 1"])
    #expect(receive([], session, after: .seconds(10)) == [])
    let pong = SessionRig.packet(.ping, flags: .response, sequence: 2)
    #expect(receive(pong, session, after: .milliseconds(10_100)) == ["pong 0", "message 3"])
  }

  @Test func aGapIsPassedOverInTimeWhenTheServerIsHeard() {
    let session = loggedIn()
    #expect(receive(message(1) + message(3), session) == ["message 1"])
    let pong = SessionRig.packet(.ping, flags: .response, sequence: 2)
    #expect(receive(pong, session, after: .milliseconds(9500)) == ["pong 0"])
    #expect(receive([], session, after: .seconds(10)) == ["message 3"])
    // A later gap is waited for as long.
    #expect(receive(message(5), session, after: .seconds(11)) == [])
    #expect(receive([], session, after: .seconds(21)) == [])
    #expect(receive(pong, session, after: .seconds(22)) == ["pong 0"])
    #expect(receive([], session, after: .seconds(23)) == ["message 5"])
  }

  /// Messages and bytes of the window told, and the messages that fly then of ten with 1000 bytes of text.
  @Test(arguments: [(0, 0, 10), (4, 0, 4), (0, 2500, 3), (1 << 31, 1 << 63, 10)] as [(UInt32, UInt64, Int)])
  func theServersWindowIsKeptAndNoneIsTheUsual(messages: UInt32, bytes: UInt64, flying: Int) throws {
    let session = loggedIn {
      $0.windowMessages = messages
      $0.windowBytes = bytes
    }
    for _ in 0..<10 {
      _ = try outbox.append(MessageContent(text: String(repeating: "x", count: 1000)), to: "bob", now: start)
    }
    session.flush(now: start, streamRoom: 1 << 20) { _, _ in }
    #expect(session.channel.window.count == flying)
  }

  private func outcome(
    _ state: MessageState, _ orders: ClosedRange<UInt64>, user: String = "bob", isKept: Bool = false
  ) -> [UInt8] {
    var payload: [UInt8] = []
    Receipt(outcomes: [Outcome(state, user: user, orders: [orders], isKept: isKept)]).append(to: &payload)
    return SessionRig.packet(.receipt, payload)
  }

  @Test func itBeginsWithTheLogin() throws {
    let packets = SessionRig.packets(in: session().takeStream())
    #expect(packets.map(\.header.command) == [.login])
    let payload = packets[0].payload
    #expect(try Login(reading: payload.span).outboxId == 5)
  }

  @Test func aLoginIsRefusedOrNotAnswered() {
    var payload: [UInt8] = []
    Refusal(.tokenExpired, "expired").append(to: &payload)
    let refused = session()
    #expect(receive(SessionRig.packet(.login, flags: [.response, .error], payload), refused) == ["ended 7"])
    let silent = session()
    #expect(silent.deadline(now: start) == start + .seconds(10))
    #expect(receive([], silent, after: .milliseconds(9999)) == [])
    #expect(receive([], silent, after: .seconds(10)) == ["failed"])
  }

  @Test func aServerThatBreaksTheProtocolIsLeft() {
    #expect(receive(SessionRig.packet(.message), session()) == ["failed"])
    for offset in [0, 5, 7, 15] {
      let session = loggedIn()
      _ = session.takeEvents()
      var packet = SessionRig.packet(.ping)
      packet[offset] = 0xFF
      #expect(receive(packet, session) == ["failed"], "byte \(offset)")
      #expect(session.deadline(now: start) == .never)
    }
  }

  @Test func itKeepsTheConnectionAliveAndNoticesSilence() {
    let session = loggedIn()
    #expect(session.deadline(now: start) == start + .seconds(30))
    #expect(receive([], session, after: .seconds(29)) == [])
    #expect(session.takeStream().isEmpty)
    _ = receive([], session, after: .seconds(30))
    #expect(SessionRig.packets(in: session.takeStream()).map(\.header.command) == [.ping])
    #expect(receive([], session, after: .milliseconds(74_999)) == [])
    #expect(receive([], session, after: .seconds(75)) == ["failed"])
  }

  @Test func anIdleClientSleeps() {
    let session = loggedIn()
    _ = receive([], session, after: .seconds(2))
    #expect(session.deadline(now: start + .seconds(2)) == start + .seconds(30))
  }

  @Test func eachOutcomeIsItsOwnWord() throws {
    let session = loggedIn()
    for text in ["a", "b", "c"] { _ = try outbox.append(MessageContent(text: text), to: "bob", now: start) }
    _ = receive([], session)
    #expect(SessionRig.packets(in: session.takeStream()).map(\.header.command) == [.message, .message, .message])
    #expect(receive(outcome(.accepted, 1...2), session) == ["accepted 1", "accepted 2"])
    #expect(receive(outcome(.accepted, 1...2), session) == [])
    #expect(receive(outcome(.later, 2...2), session) == ["later 2"])
    #expect(receive(outcome(.delivered, 1...1), session) == ["delivered 1"])
    #expect(receive(outcome(.delivered, 1...1), session) == ["delivered behind the end [\"1-1\"]"])
    #expect(receive(outcome(.stored, 1...1), session) == [])
    #expect(receive(outcome(.rejected, 3...3), session) == ["rejected 3"])
    #expect(outbox.count == 1)
  }

  /// What the session says of outcomes.
  private func said(_ session: ClientSession) throws -> [Outcome] {
    try SessionRig.packets(in: session.takeStream()).filter { $0.header.command == .receipt }.flatMap { packet in
      try Receipt(reading: packet.payload.span).outcomes
    }
  }

  @Test func whatIsKeptIsSaidBack() throws {
    let session = loggedIn()
    for text in ["a", "b", "c"] { _ = try outbox.append(MessageContent(text: text), to: "bob", now: start) }
    _ = receive([], session)
    #expect(receive(outcome(.stored, 1...2), session) == ["stored 1", "stored 2"])
    #expect(try said(session) == [])
    let kept = outcome(.delivered, 1...3, isKept: true)
    // The third was not stored yet, as far as this end knew: then it is its final outcome.
    #expect(receive(kept, session) == ["delivered 3", "delivered behind the end [\"1-2\"]"])
    #expect(try said(session) == [Outcome(.delivered, user: "bob", orders: [1...3], isKept: true)])
    // The server has not heard it.
    _ = receive(kept, session, after: .seconds(1))
    #expect(try said(session) == [Outcome(.delivered, user: "bob", orders: [1...3], isKept: true)])
    // What nobody here knows is said back as well: else it came for ever.
    #expect(receive(outcome(.expired, 1...9, user: "carol", isKept: true), session, after: .seconds(2)) == [])
    #expect(try said(session) == [Outcome(.expired, user: "carol", orders: [1...9], isKept: true)])
  }

  @Test func aLoginAsksForWhatIsKept() throws {
    let payload = SessionRig.packets(in: session().takeStream())[0].payload
    #expect(try Login(reading: payload.span).features == WireFeatures.keptOutcomes)
  }

  @Test func anOutcomeForWhatWasNeverSentIsIgnored() throws {
    let session = loggedIn()
    _ = try outbox.append(MessageContent(text: "a"), to: "bob", now: start)
    _ = receive([], session)
    #expect(receive(outcome(.delivered, 2...10_000_000), session) == [])
    #expect(receive(outcome(.delivered, 1 << 63 ... .max), session) == [])
    #expect(receive(outcome(.delivered, 1...5, user: "carol"), session) == [])
    #expect(receive(outcome(.delivered, 0 ... .max - 1), session) == ["delivered 1"])
  }

  /// A message that was accepted and never became final is offered again.
  @Test func acceptedForFiveSecondsIsOfferedAgain() throws {
    let session = loggedIn()
    _ = try outbox.append(MessageContent(text: "a"), to: "bob", now: start)
    _ = receive([], session)
    _ = receive(outcome(.accepted, 1...1), session)
    _ = session.takeStream()
    var offered: [Int64] = []
    for second: Int64 in 1...12 {
      _ = receive([], session, after: .seconds(second))
      if SessionRig.packets(in: session.takeStream()).contains(where: { $0.header.command == .message }) {
        offered.append(second)
      }
    }
    #expect(offered == [5])
  }

  @Test func aGoodbyeComesBehindWhatWasTaken() {
    let session = loggedIn()
    _ = session.takeStream()
    session.acknowledge(from: "bob", device: 1, order: 1, now: start)
    session.logout(now: start)
    #expect(SessionRig.packets(in: session.takeStream()).map(\.header.command) == [.receipt, .logout])
  }

  @Test func anUnknownRequestGetsATypedError() {
    let session = loggedIn()
    _ = session.takeStream()
    var unknown: [UInt8] = []
    PacketWriter.append(service: 7, number: 1, flags: [], sequence: 77, to: &unknown) { _ in }
    _ = receive(unknown, session)
    let answer = SessionRig.packets(in: session.takeStream())
    #expect(answer.first?.refusal?.code == .unknownCommand && answer.first?.header.sequence == 77)
  }
}
