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
  /// The headers of what the last step wrote.
  private(set) var written: [PacketHeader] = []
  private var places: [Place] = []
  private var lastNumber: UInt64?
  private var failure: Violation?
  private var random: UInt64 = 0

  /// An address that datagrams came from or went to.
  struct Place {
    var address: PeerAddress
    var isProven = false
    /// Authentic bytes that came while it was not proven, and bytes that left.
    var received = 0
    var sent = 0
    var challenges: [UInt64] = []
    var answers: [UInt64] = []
  }

  init() {
    let limits = KeyLimits(phaseDatagrams: 3, sealedDatagrams: 14, forgedDatagrams: 4)
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

  func session(_ session: ServerSession, asks request: SessionRequest, ticket: RequestTicket, now: Instant) {
    note(isLoggedIn && endings == 0, "a request outside of a session")
    switch request {
    case .renew(let token):
      note(token.utf8.count <= WireLimits.maximumTokenBytes, "a token of \(token.utf8.count) bytes")
      session.renew(until: now + .seconds(60))
      session.answer(ticket, .renewed(expires: 5, serverTime: 3))
    case .kick(let user, let reason):
      note(Text.isUserName(Array(user.utf8).span) && reason.utf8.count <= 256, "\(user) is sent away: \(reason)")
      session.answer(ticket, .kicked(issuedUntil: 3, isStored: false))
    case .counters:
      session.refuse(ticket, Refusal(.forbidden, "no"))
    }
  }

  func session(_ session: ServerSession, provedPath address: PeerAddress, now: Instant) {
    let index = place(address)
    let isAnswered = places[index].answers.contains { places[index].challenges.contains($0) }
    note(isAnswered, "\(address) is proven without an answer")
    places[index].isProven = true
  }

  func sessionPathWentDown(_ session: ServerSession, now: Instant) {}

  func session(_ session: ServerSession, endedWith refusal: Refusal, now: Instant) { endings += 1 }

  // MARK: - What a client does

  func receive(stream: [UInt8]) throws {
    session.receive(stream: stream.span, now: now)
    let kept = session.channel.assembler.bufferedBytes
    let most = 4 * WireLimits.maximumPacketBytesBeforeLogin
    try require(isLoggedIn || session.isEnded || kept <= most, "\(kept) bytes kept before the login")
    try look()
  }

  func receive(datagram: [UInt8], from address: PeerAddress) throws {
    let before = session.channel.counters.datagramsReceived
    let index = place(address)
    noteAnswers(in: datagram.span, at: index)
    var datagram = datagram
    var span = datagram.mutableSpan
    session.receive(datagram: &span, from: address, now: now)
    if session.channel.counters.datagramsReceived > before { places[index].received += datagram.count }
    try look()
  }

  /// What a client answers there, whether or not the server can read it.
  private func noteAnswers(in datagram: Span<UInt8>, at index: Int) {
    guard datagram.count > WireLimits.datagramHeaderBytes + WireLimits.datagramTagBytes else { return }
    let end = datagram.count - WireLimits.datagramTagBytes
    try? Packets.split(datagram.extracting(WireLimits.datagramHeaderBytes..<end)) { header, payload in
      guard header.command == .pathResponse, let token = try? TokenPayload.read(payload) else { return }
      places[index].answers.append(token)
    }
  }

  /// A challenge that the server sent there.
  func challenge(to address: PeerAddress) -> UInt64? { places[place(address)].challenges.min() }

  private func place(_ address: PeerAddress) -> Int {
    if let index = places.firstIndex(where: { $0.address == address }) { return index }
    places.append(Place(address: address))
    return places.count - 1
  }

  func flush() throws {
    let isOver = session.isEnded
    // What a turn makes due, the next ones do: gaps that were waited for go one a turn. A loop that spins never ends.
    var headers: [PacketHeader] = []
    var turns = 0
    repeat {
      try require(turns < 64, "time stands still")
      session.flush(now: now, streamRoom: 1 << 20) { datagram, address in
        note(!isOver, "a datagram after the end")
        sent(datagram, to: address)
      }
      try look()
      headers += written
      turns += 1
    } while session.deadline(now: now) <= now
    written = headers
  }

  private func sent(_ datagram: Span<UInt8>, to address: PeerAddress) {
    let index = place(address)
    do {
      let number = try OpenProtection.packets(in: datagram, fromServer: true) { header, payload in
        if header.command == .pathChallenge { places[index].challenges.append(try TokenPayload.read(payload)) }
        if header.command == .receipt {
          try require(try Receipt(reading: payload).outcomes.isEmpty, "outcomes in a datagram")
        }
      }
      note(lastNumber.map { number > $0 } ?? true, "packet number \(number) after \(lastNumber ?? 0)")
      lastNumber = number
    } catch {
      failure = failure ?? Violation(description: "sent by UDP: \(error)")
    }
    guard !places[index].isProven else { return }
    places[index].sent += datagram.count
    let place = places[index]
    note(place.sent <= 3 * place.received, "\(place.sent) bytes to an unproven address that sent \(place.received)")
  }

  /// What was written, and what was noted on the way.
  private func look() throws {
    if let failure { throw failure }
    written.removeAll(keepingCapacity: true)
    let stream = session.takeStream()
    try Packets.split(stream.span) { header, payload in
      written.append(header)
      let isError = header.flags.contains(.error)
      if isError || header.command == .ended { _ = try Refusal(reading: payload) }
      if header.command == .receipt, !isError { _ = try Receipt(reading: payload) }
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
