@testable import SimpCore

/// A server's session, its owner, and what both are watched for whatever a client sends.
final class ServerRig: ServerSessionOwner {
  static let connectionId: UInt64 = 0x01_0203_0405

  private(set) var session: ServerSession!
  var now = Instant(nanoseconds: 1_000_000_000)
  /// What becomes of a login: 0 it is accepted at once, 1 it waits, 2 it is refused.
  var loginAnswer: UInt8 = 0
  var verdict = MessageVerdict.held
  private(set) var waitingLogin: Login?
  private(set) var isLoggedIn = false
  private(set) var endings = 0
  private(set) var written: [(header: PacketHeader, payload: [UInt8])] = []
  /// Of each address that is not proven: authentic bytes that came, and bytes that left.
  private var unproven: [PeerAddress: (received: Int, sent: Int)] = [:]
  private(set) var proven: Set<PeerAddress> = []
  private(set) var challenges: [PeerAddress: Set<UInt64>] = [:]
  private var answers: [PeerAddress: Set<UInt64>] = [:]
  private var lastNumber: UInt64?
  private var failure: Violation?
  private var random: UInt64 = 0

  init() {
    let limits = KeyLimits(phaseDatagrams: 3, sealedDatagrams: 40, forgedDatagrams: 20)
    session = ServerSession(id: 1, owner: self, keyLimits: limits, now: now) { [unowned self] in
      random &+= 0x9E37_79B9_7F4A_7C15
      return random
    }
  }

  // MARK: - Owner

  func session(_ session: ServerSession, wantsLogin login: Login, now: Instant) {
    note(login.token.utf8.count <= WireLimits.maximumTokenBytes, "a token of \(login.token.utf8.count) bytes")
    note(login.outboxId != 0 && !isLoggedIn && waitingLogin == nil, "a login that no session may ask for")
    waitingLogin = login
    if loginAnswer != 1 { answerLogin() }
  }

  func answerLogin() {
    guard let login = waitingLogin else { return }
    waitingLogin = nil
    guard loginAnswer != 2 else { return session.refuse(Refusal(.tokenInvalid, "no"), now: now) }
    var reply = LoginReply()
    reply.user = "alice"
    reply.deviceNumber = 3
    reply.connectionId = Self.connectionId
    guard !session.isEnded else { return }
    isLoggedIn = true
    session.accept(reply, login: login, protection: OpenProtection(isServer: true), now: now)
  }

  func session(
    _ session: ServerSession, received fields: MessageFields, payload: Span<UInt8>, now: Instant
  ) -> MessageVerdict {
    note(isLoggedIn && endings == 0, "a message outside of a session")
    note(fields.deviceNumber == 3, "a message of device \(fields.deviceNumber)")
    note(fields.floor >= 1 && fields.floor <= fields.order && fields.order < 1 << 40, "order \(fields.order)")
    note(fields.order - fields.floor < WireLimits.orderWindow, "order \(fields.order), floor \(fields.floor)")
    note(Text.isUserName(payload.extracting(fields.toUser)) && fields.fromUser.isEmpty, "names")
    note(payload.count <= WireLimits.maximumMessagePayloadBytes, "\(payload.count) bytes")
    return verdict
  }

  func session(_ session: ServerSession, reported outcome: Outcome, now: Instant) {
    note(isLoggedIn && endings == 0, "an outcome outside of a session")
    note([.delivered, .read, .later].contains(outcome.state), "a recipient says \(outcome.state)")
  }

  func session(_ session: ServerSession, provedPath address: PeerAddress, now: Instant) {
    let answered = answers[address] ?? []
    note(!answered.isDisjoint(with: challenges[address] ?? []), "\(address) is proven without an answer")
    proven.insert(address)
  }

  func sessionPathWentDown(_ session: ServerSession, now: Instant) {}

  func session(_ session: ServerSession, endedWith refusal: Refusal, now: Instant) { endings += 1 }

  // MARK: - What a client does

  func receive(stream: [UInt8]) throws {
    session.receive(stream: stream.span, now: now)
    let most = 4 * WireLimits.maximumPacketBytesBeforeLogin + stream.count
    let kept = session.channel.assembler.bufferedBytes
    try require(isLoggedIn || session.isEnded || kept <= most, "\(kept) bytes kept before the login")
    try look()
  }

  /// - Parameter answer: the token of a PATH_RESPONSE in it.
  func receive(datagram: [UInt8], from address: PeerAddress, answer: UInt64? = nil) throws {
    let before = session.counters.datagramsReceived
    if let answer { answers[address, default: []].insert(answer) }
    var datagram = datagram
    var span = datagram.mutableSpan
    session.receive(datagram: &span, from: address, now: now)
    if session.counters.datagramsReceived > before { unproven[address, default: (0, 0)].received += datagram.count }
    try look()
  }

  func flush() throws {
    let isOver = session.isEnded
    session.flush(now: now, streamRoom: 1 << 20) { datagram, address in
      note(!isOver, "a datagram after the end")
      sent(datagram, to: address)
    }
    try look()
  }

  private func sent(_ datagram: Span<UInt8>, to address: PeerAddress) {
    do {
      let (number, packets) = try OpenProtection.packets(in: datagram, fromServer: true)
      note(lastNumber.map { number > $0 } ?? true, "packet number \(number) after \(lastNumber ?? 0)")
      lastNumber = number
      for packet in packets where packet.header.command == .pathChallenge {
        challenges[address, default: []].insert(try TokenPayload.read(packet.payload.span))
      }
      for packet in packets where packet.header.command == .receipt {
        try require(try Receipt(reading: packet.payload.span).outcomes.isEmpty, "outcomes in a datagram")
      }
    } catch {
      failure = failure ?? Violation(description: "sent by UDP: \(error)")
    }
    guard !proven.contains(address) else { return }
    unproven[address, default: (0, 0)].sent += datagram.count
    let (received, sent) = unproven[address] ?? (0, 0)
    note(sent <= 3 * received, "\(sent) bytes to an unproven address that sent \(received)")
  }

  /// What was written, and what was noted on the way.
  private func look() throws {
    if let failure { throw failure }
    written = try Packets.split(session.takeStream())
    for packet in written {
      let isError = packet.header.flags.contains(.error)
      if isError || packet.header.command == .ended { _ = try Refusal(reading: packet.payload.span) }
      if packet.header.command == .receipt, !isError { _ = try Receipt(reading: packet.payload.span) }
    }
    try require(endings <= 1 && session.isEnded == (endings == 1), "ended \(endings) times")
    let channel = session.channel
    try require(channel.received.ranges.count <= WireLimits.maximumReceiptRanges, "ranges of datagrams")
    try require(channel.accepted.isEmpty, "\(channel.accepted.count) messages that nobody asks for are kept")
  }

  private func note(_ condition: Bool, _ what: @autoclosure () -> String) {
    if !condition { failure = failure ?? Violation(description: what()) }
  }
}
