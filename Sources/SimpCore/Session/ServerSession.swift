/// What a server decides about a message that a client sent.
public enum MessageVerdict: Hashable, Sendable {
  /// It is in memory, now or already before.
  case held
  /// It is a copy of one that is finished: what the sender was told is told again, if anything.
  case finished(MessageState?)
  /// Not now.
  case later(ErrorCode, retryAfter: Interval)
  /// Never.
  case rejected(ErrorCode)
}

/// Who decides for a server's sessions: the switchboard. All calls come from within the session's own calls.
public protocol ServerSessionOwner: AnyObject {
  /// To be answered with `accept` or `refuse`, now or later.
  func session(_ session: ServerSession, wantsLogin login: Login, now: Instant)
  /// A message whose form is right.
  func session(
    _ session: ServerSession, received fields: MessageFields, payload: Span<UInt8>, now: Instant
  ) -> MessageVerdict
  /// The client says what became of messages that were handed to it: DELIVERED, READ, or LATER for want of room.
  func session(_ session: ServerSession, reported outcome: Outcome, now: Instant)
  /// To be answered with `answer` or `refuse(_:_:)`, now or later.
  func session(_ session: ServerSession, asks request: SessionRequest, ticket: RequestTicket, now: Instant)
  func session(_ session: ServerSession, provedPath address: PeerAddress, now: Instant)
  func sessionPathWentDown(_ session: ServerSession, now: Instant)
  /// The session is over, by whoever's doing; the connection closes when its stream is written.
  func session(_ session: ServerSession, endedWith refusal: Refusal, now: Instant)
}

extension ServerSessionOwner {
  /// An owner that knows no requests.
  public func session(
    _ session: ServerSession, asks request: SessionRequest, ticket: RequestTicket, now: Instant
  ) {
    session.refuse(ticket, Refusal(.unknownCommand, "this is not served here"))
  }
}

/// A server's side of one connection, from accept to end. Sans-I/O: the reactor feeds bytes and time, and writes what
/// `takeStream()` and `flush` give.
public final class ServerSession {
  enum State { case awaitingLogin, loggingIn, active, ended }

  public let channel = Channel()
  public unowned let owner: any ServerSessionOwner
  /// A number the owner chose, unique on its reactor.
  public let id: UInt64
  private(set) var state = State.awaitingLogin
  /// The token's subject, empty before login.
  public private(set) var user = ""
  public private(set) var deviceNumber: UInt32 = 0
  public private(set) var epoch: UInt64 = 0
  public private(set) var isSendOnly = false
  public private(set) var roomMessages = 0
  public private(set) var roomBytes = 0

  private let limits: SessionLimits
  /// When its token is over.
  public private(set) var expires = Instant.never

  private let loginDeadline: Instant
  private let random: () -> UInt64
  private var loginSequence: UInt16 = 0
  private var lastHeard: Instant
  private var paths = UnprovenPaths()
  /// Datagrams go to an address that is not proven.
  private var move: Move?
  /// Until then no further move asks the old address, or sends anything besides what is due: whoever copies every datagram
  /// of the client moves the path with each.
  private var nextMoveAsks = Instant(nanoseconds: 0)
  private var nextProbeRequest = Instant.never
  private var pathWentDown = Instant(nanoseconds: 0)
  // While a datagram is read: where it came from, and what of it was taken.
  private var source: PeerAddress?
  private var heldInDatagram: [(user: String, order: UInt64)] = []

  /// - Parameter random: unpredictable numbers, for challenges: a client must not guess what it has to receive.
  public init(
    id: UInt64, owner: any ServerSessionOwner, limits: SessionLimits = SessionLimits(),
    keyLimits: KeyLimits = KeyLimits(), now: Instant,
    random: @escaping () -> UInt64
  ) {
    self.id = id
    channel.phases.limits = keyLimits
    channel.redundancy.mode = limits.redundancy
    self.owner = owner
    self.limits = limits
    self.random = random
    lastHeard = now
    loginDeadline = now + limits.loginTime
  }

  public var isActive: Bool { state == .active }
  /// A login came and is not answered yet.
  public var isLoggingIn: Bool { state == .loggingIn }
  public var isEnded: Bool { state == .ended }
  public var path: PathState { channel.path }
  /// Where the client's datagrams come from, once proven.
  public var provenAddress: PeerAddress? { move?.home ?? channel.peer }
  /// Why the session goes on without UDP, nil while it need not.
  public var udpEnd: UDPEnd? { channel.udpEnd }
  public var connectionId: UInt64 { channel.connectionId }
  public var rtt: RTTEstimator { channel.rtt }
  public var counters: ChannelCounters { channel.snapshot() }
  /// How its datagrams fare.
  public var pathStatistics: PathStatistics { channel.pathStatistics }
  /// Messages handed over to this client and not finished.
  public var pendingMessages: Int { channel.window.count }
  /// Bytes of them.
  public var pendingBytes: Int { channel.window.bytes }

  // MARK: - Login

  /// The login is good.
  ///
  /// - Parameters:
  ///   - protection: nil when client or server does without UDP.
  ///   - expires: when the session ends by itself, for its token is over; `renew` puts it off.
  public func accept(
    _ reply: LoginReply, login: Login, protection: (any DatagramProtection)?, expires: Instant = .never, now: Instant
  ) {
    guard state == .loggingIn else { return }
    state = .active
    user = reply.user
    deviceNumber = reply.deviceNumber
    epoch = reply.sessionEpoch
    self.expires = expires
    isSendOnly = login.sendOnly
    roomMessages = limits.pendingMessages
    roomBytes = limits.pendingBytes
    setRoom(messages: login.receiveMessages, bytes: login.receiveBytes)
    channel.assembler.limit = WireLimits.maximumPacketBytes
    // So that the secret in it lies in one place: an array that grows leaves a copy behind.
    channel.stream.reserveCapacity(channel.stream.count + WireLimits.maximumPacketBytesBeforeLogin)
    channel.writeStream(.login, flags: .response, sequence: loginSequence, payload: reply.append)
    if let protection { channel.startProbing(protection, connectionId: reply.connectionId, seed: random(), now: now) }
  }

  /// Goes on with what came behind the login while it was under way.
  public func continueReading(now: Instant) { readPackets(now: now) }

  /// The login is not good; the connection closes.
  public func refuse(_ refusal: Refusal, now: Instant) {
    guard state == .loggingIn else { return }
    channel.writeStream(.login, flags: [.response, .error], sequence: loginSequence, payload: refusal.append)
    finish(refusal, now: now)
  }

  /// Ends the session and tells the client why.
  public func end(_ refusal: Refusal, now: Instant) {
    guard state != .ended else { return }
    channel.writeStream(.ended, payload: refusal.append)
    finish(refusal, now: now)
  }

  /// The connection is gone.
  public func connectionClosed(now: Instant) {
    if state != .ended { finish(Refusal(.unspecified, "connection closed"), now: now) }
  }

  private func finish(_ refusal: Refusal, now: Instant) {
    state = .ended
    owner.session(self, endedWith: refusal, now: now)
  }

  /// The client's word, up to what this server keeps for a session; 0 leaves it as it is.
  private func setRoom(messages: UInt32, bytes: UInt64) {
    if messages > 0 { roomMessages = min(Int(messages), limits.pendingMessages) }
    if bytes > 0 { roomBytes = Int(min(bytes, UInt64(limits.pendingBytes))) }
  }

  // MARK: - Requests

  /// The client brought another token: the session ends with that one.
  public func renew(until expires: Instant) { self.expires = expires }

  public func answer(_ ticket: RequestTicket, _ answer: SessionAnswer) {
    guard state == .active else { return }
    channel.writeStream(ticket.command, flags: .response, sequence: ticket.sequence, payload: answer.append)
  }

  /// The request is not granted; the session lives.
  public func refuse(_ ticket: RequestTicket, _ refusal: Refusal) {
    guard state == .active else { return }
    channel.writeStream(
      ticket.command, flags: [.response, .error], sequence: ticket.sequence, payload: refusal.append)
  }

  // MARK: - Towards the client

  /// Whether the client, and this session, have room for one more message of `bytes`.
  ///
  /// - Parameter fillsGap: later messages of its conversation are pending. The client cannot show those before this
  ///   one, so that no room would ever come free: it gets as much room again, and a little.
  public func hasRoom(bytes: Int, fillsGap: Bool = false) -> Bool {
    let messages = fillsGap ? 2 * roomMessages + 64 : roomMessages
    let limit = fillsGap ? 2 * roomBytes + WireLimits.maximumPacketBytes : roomBytes
    return channel.window.count < messages && channel.window.bytes + bytes <= limit
  }

  /// Relays a message; `finish(_:)` ends it.
  public func deliver(_ key: MessageKey, _ message: EncodedMessage) {
    channel.insert(key, message, byTCP: false)
  }

  /// The message is finished.
  ///
  /// - Returns: the bytes that were held for it.
  @discardableResult
  public func finish(_ key: MessageKey) -> Int { channel.window.remove(key)?.message.bytes.count ?? 0 }

  public func holds(_ key: MessageKey) -> Bool { channel.window.entries[key] != nil }

  /// Messages handed over and not finished, by conversation and order, and their bytes.
  public func pending() -> [(key: MessageKey, bytes: Int)] {
    channel.window.entries.map { ($0.key, $0.value.message.bytes.count) }.sorted { $0.key.rawValue < $1.key.rawValue }
  }

  /// Tells the client what became of a message it sent.
  public func report(
    _ state: MessageState, to user: String, order: UInt64, code: ErrorCode = .unspecified,
    retryAfter: Interval = .zero, now: Instant
  ) {
    channel.outcomes.add(
      state, user: user, order: order, code: code,
      retryAfterMilliseconds: UInt32(retryAfter.nanoseconds / 1_000_000), now: now)
  }

  // MARK: - Input

  /// Bytes from the TCP connection.
  public func receive(stream bytes: Span<UInt8>, now: Instant) {
    guard state != .ended else { return }
    lastHeard = now
    channel.assembler.append(bytes)
    // BOUND: while a login is under way what follows it waits, up to a full packet before login and some.
    if state == .loggingIn, channel.assembler.bufferedBytes > 4 * WireLimits.maximumPacketBytesBeforeLogin {
      return end(Refusal(.notLoggedIn, "too much was sent before the login was answered"), now: now)
    }
    readPackets(now: now)
  }

  private func readPackets(now: Instant) {
    do throws(WireError) {
      while state == .awaitingLogin || state == .active, let packet = try channel.assembler.next() {
        let header = try PacketHeader(reading: packet.span, limit: packet.count)
        let payload = packet.span.extracting(WireLimits.headerBytes..<packet.count)
        do throws(WireError) {
          _ = try handle(header, payload, .tcp, now: now)
        } catch {
          // The frame was whole, only its payload is broken: the stream can be read on.
          if !header.flags.contains(.response) { channel.writeError(Refusal(error.code, "\(error)"), to: header) }
          if state == .awaitingLogin { end(Refusal(error.code, "\(error)"), now: now) }
        }
      }
    } catch {
      end(Refusal(error.code, "\(error)"), now: now)
    }
  }

  /// A datagram that carries this session's connection id; decrypted in place.
  ///
  /// - Returns: whether anything came of it, so that a flush may be due; false for what was dropped.
  @discardableResult
  public func receive(datagram: inout MutableSpan<UInt8>, from address: PeerAddress, now: Instant) -> Bool {
    guard state == .active else { return false }
    let size = datagram.count
    source = address
    heldInDatagram.removeAll(keepingCapacity: true)
    let isProven = address == provenAddress && channel.path == .up
    let arrival = channel.receive(datagram: &datagram, isProven: isProven, now: now) {
      (header, payload) throws(WireError) -> Bool in
      try self.handle(header, payload, .udp, now: now)
    }
    source = nil
    guard let arrival else { return channel.isUDPEndNews }
    guard state == .active else { return true }
    if arrival.isAnswered {
      // Its receipt cannot speak for all messages of the datagram: each gets its own word, on TCP.
      for (user, order) in heldInDatagram { report(.accepted, to: user, order: order, now: now) }
    }
    if address != provenAddress || channel.path != .up {
      paths.received(size, from: address, isNewest: arrival.isNewest)
    }
    if arrival.isNewest, address != channel.peer, channel.path == .up { follow(address, now: now) }
    return true
  }

  // MARK: - Changes of address

  private struct Move {
    /// The last proven address.
    var home: PeerAddress
    /// When the new one is given up.
    var end: Instant
    var nextChallenge: Instant
    /// The challenge of the old address waits to be sent.
    var asksHome: Bool
    /// What flew to the old address has probably got lost.
    var probes: Bool
  }

  private var provingTime: Interval { channel.rtt.probeTimeout(receiptDelay: .zero) }

  /// The client's newest datagram came from another address than its datagrams go to: they go there from now on, under
  /// the amplification limit until it is proven. Whoever copies the client's datagrams and is faster gets so much and no
  /// more: the old address is asked as well, and an answer from there brings everything back.
  private func follow(_ address: PeerAddress, now: Instant) {
    guard let home = provenAddress else { return }
    guard address != home else {
      channel.moveBack(to: home, now: now)
      move = nil
      channel.allowance = nil
      return
    }
    channel.move(to: address)
    let asks = nextMoveAsks <= now
    if asks { nextMoveAsks = now + provingTime }
    move = Move(
      home: home, end: now + provingTime * WireTimes.provingProbeTimeouts, nextChallenge: now + provingTime,
      asksHome: asks, probes: asks)
    channel.allowance = 0
  }

  private func continueMove(now: Instant, send: (Span<UInt8>, PeerAddress) -> Void) {
    guard var move, let peer = channel.peer else { return }
    guard channel.path == .up, move.end > now else {
      self.move = nil
      channel.allowance = nil
      if channel.path == .up { channel.moveBack(to: move.home, now: now) }
      return
    }
    if move.asksHome {
      move.asksHome = false
      channel.sendControl(
        [(.pathChallenge, random() | 1)], padded: true, eliciting: false, to: move.home, now: now, send: send)
    }
    if move.nextChallenge <= now {
      move.nextChallenge = now + provingTime
      paths.challengeAgain(peer)
    }
    let reserve = paths.isChallengeDue(to: peer) ? WireLimits.maximumDatagramBytes : 0
    channel.allowance = max(0, paths.allowance(for: peer) - reserve)
    if move.probes, channel.sent.hasElicitingInFlight, channel.sent.room >= WireLimits.maximumDatagramBytes {
      channel.sendProbe(now: now, floor: { $0.order }, send: send)
    }
    move.probes = false
    self.move = move
  }

  /// Asks for a proof on TCP when datagrams went unheard and none came: a client that only listens may have another
  /// address, and has no other way to show it.
  private func askForProof(since timeouts: Int, now: Instant) {
    guard channel.path == .up, channel.sent.probeTimeouts > timeouts else { return }
    guard channel.lastArrival + provingTime <= now else { return }
    channel.writeStream(.probeRequest) { _ in }
  }

  /// When the client has missed two keep-alives.
  private var silenceEnds: Instant {
    channel.path == .up
      ? channel.lastArrival + WireTimes.udpKeepAlive * WireTimes.downKeepAlives + WireTimes.keepAliveGrace : .never
  }

  private func handle(
    _ header: PacketHeader, _ payload: Span<UInt8>, _ transport: Transport, now: Instant
  ) throws(WireError) -> Bool {
    guard state == .active else {
      try handleBeforeLogin(header, payload, now: now)
      return true
    }
    switch header.command {
    case .message:
      return try handleMessage(payload, transport, now: now)
    case .receipt:
      try handleReceipt(payload, transport, now: now)
    case .ping:
      try handlePing(header, payload, transport)
    case .pathChallenge where transport == .udp:
      if let source { paths.challenged(try TokenPayload.read(payload), from: source) }
    case .pathResponse where transport == .udp:
      if let source, paths.proves(try TokenPayload.read(payload), from: source) { pathProven(source, now: now) }
    case .logout where transport == .tcp && !header.flags.contains(.response):
      let token = try TokenPayload.read(payload)
      channel.writeStream(.logout, flags: .response, sequence: header.sequence) { $0.appendField(1, fixed64: token) }
      finish(Refusal(.unspecified, "logged out"), now: now)
    default:
      if transport == .tcp, !header.flags.contains(.response), let command = header.command,
        let request = try SessionRequest(command, reading: payload)
      {
        let ticket = RequestTicket(command: command, sequence: header.sequence)
        owner.session(self, asks: request, ticket: ticket, now: now)
      } else {
        refuseUnknown(header, transport)
      }
    }
    return true
  }

  private func handleBeforeLogin(_ header: PacketHeader, _ payload: Span<UInt8>, now: Instant) throws(WireError) {
    guard header.command == .login, !header.flags.contains(.response) else {
      return channel.writeError(Refusal(.notLoggedIn, "log in first"), to: header)
    }
    let login = try Login(reading: payload)
    state = .loggingIn
    loginSequence = header.sequence
    let spoken = login.protocolMinimum...max(login.protocolMinimum, login.protocolMaximum)
    guard spoken.contains(WireLimits.protocolVersion) else {
      return refuse(
        Refusal(.unsupportedVersion, "this server speaks protocol \(WireLimits.protocolVersion)"), now: now)
    }
    guard login.outboxId != 0 else { return refuse(Refusal(.malformed, "outbox_id is 0"), now: now) }
    owner.session(self, wantsLogin: login, now: now)
  }

  private func handleMessage(_ payload: Span<UInt8>, _ transport: Transport, now: Instant) throws(WireError) -> Bool {
    let fields = try MessageFields(reading: payload)
    var verdict: MessageVerdict
    do throws(WireError) {
      try fields.checkFromClient(payload)
      verdict =
        if fields.deviceNumber != deviceNumber {
          .rejected(.deviceMismatch)
        } else if payload.count > limits.messageBytes {
          .rejected(.tooLarge)
        } else if fields.order - fields.floor >= WireLimits.orderWindow {
          .rejected(.outsideWindow)
        } else {
          owner.session(self, received: fields, payload: payload, now: now)
        }
    } catch {
      // Without a name and an order there is nothing an outcome could speak of.
      guard fields.order > 0, Text.isUserName(payload.extracting(fields.toUser)) else { throw error }
      verdict = .rejected(error.code)
    }
    if verdict == .rejected(.tooLarge) { channel.counters.messagesTooLarge += 1 }
    answer(verdict, fields, payload, transport, now: now)
    return switch verdict {
    case .held, .finished: true
    case .later, .rejected: false
    }
  }

  private func answer(
    _ verdict: MessageVerdict, _ fields: MessageFields, _ payload: Span<UInt8>, _ transport: Transport, now: Instant
  ) {
    let user = fields.toUser(in: payload)
    switch verdict {
    case .held where transport == .tcp:
      report(.accepted, to: user, order: fields.order, now: now)
    case .held:
      heldInDatagram.append((user, fields.order))
    case .finished(let state):
      if let state { report(state, to: user, order: fields.order, now: now) }
    case .later(let code, let retryAfter):
      report(.later, to: user, order: fields.order, code: code, retryAfter: retryAfter, now: now)
    case .rejected(let code):
      report(.rejected, to: user, order: fields.order, code: code, now: now)
    }
  }

  private func handleReceipt(_ payload: Span<UInt8>, _ transport: Transport, now: Instant) throws(WireError) {
    let receipt = try Receipt(reading: payload)
    setRoom(messages: receipt.roomMessages, bytes: receipt.roomBytes)
    if let datagrams = receipt.datagrams {
      try channel.receive(datagrams, byUDP: transport == .udp, now: now)
      _ = channel.takeAccepted()
    }
    guard transport == .tcp else { return }
    for outcome in receipt.outcomes {
      switch outcome.state {
      case .delivered, .read, .later: owner.session(self, reported: outcome, now: now)
      case .unspecified, .accepted, .stored, .rejected, .expired: continue  // not for a recipient to say
      }
    }
  }

  private func handlePing(_ header: PacketHeader, _ payload: Span<UInt8>, _ transport: Transport) throws(WireError) {
    let token = try TokenPayload.read(payload)
    guard !header.flags.contains(.response) else { return }
    switch transport {
    case .tcp:
      channel.writeStream(.ping, flags: .response, sequence: header.sequence) { $0.appendField(1, fixed64: token) }
    case .udp:
      // The receipt of the datagram answers a keep-alive; a token asks for its echo.
      if token != 0, let source, source == channel.peer || source == provenAddress { pongs.append(token) }
    }
  }
  // BOUND: one a datagram that came, emptied by the next flush, which follows each batch; more than 16 are dropped.
  private var pongs: [UInt64] = [] { didSet { if pongs.count > 16 { pongs.removeFirst() } } }

  private func refuseUnknown(_ header: PacketHeader, _ transport: Transport) {
    guard !header.flags.contains(.response), transport == .tcp else { return }
    if header.command == .login {
      channel.writeError(Refusal(.malformed, "this session is logged in"), to: header)
    } else {
      let name = "service \(header.service) command \(header.number)"
      channel.writeError(Refusal(.unknownCommand, "\(name) is not known here"), to: header)
    }
  }

  private func pathProven(_ address: PeerAddress, now: Instant) {
    let isNews = channel.path != .up || provenAddress != address
    move = nil
    channel.pathProven(address, now: now)
    nextProbeRequest = .never
    guard isNews else { return }
    channel.writeStream(.pathUp) { PathUpPayload.append(address, to: &$0) }
    owner.session(self, provedPath: address, now: now)
  }

  // MARK: - Time and output

  /// What is to be written to the connection, in order.
  public func takeStream() -> [UInt8] { channel.takeStream() }

  public func deadline(now: Instant) -> Instant {
    switch state {
    case .ended: .never
    case .awaitingLogin, .loggingIn: loginDeadline
    case .active:
      min(
        channel.deadline(now: now), lastHeard + WireTimes.idleTimeout, nextProbeRequest, expires,
        min(silenceEnds, move?.end ?? .never, move?.nextChallenge ?? .never))
    }
  }

  /// Lets time do its work and sends what is due; see `ClientSession.flush`.
  public func flush(now: Instant, streamRoom: Int, send: (Span<UInt8>, PeerAddress) -> Void) {
    switch state {
    case .ended: return
    case .awaitingLogin, .loggingIn:
      if loginDeadline <= now {
        let time = limits.loginTime.milliseconds / 1000
        end(Refusal(.timedOut, "no login within \(time) s"), now: now)
      }
      return
    case .active:
      break
    }
    if lastHeard + WireTimes.idleTimeout <= now {
      return end(Refusal(.timedOut, "silent for too long", retryAfterMilliseconds: 1), now: now)
    }
    if expires <= now { return end(Refusal(.tokenExpired, "the token's time is over"), now: now) }
    guard move != nil else { return flushActive(now: now, streamRoom: streamRoom, send: send) }
    flushActive(now: now, streamRoom: streamRoom) { datagram, address in
      paths.noteSent(datagram.count, to: address)
      send(datagram, address)
    }
  }

  private func flushActive(now: Instant, streamRoom: Int, send: (Span<UInt8>, PeerAddress) -> Void) {
    let floor = { (key: MessageKey) in key.order }
    let timeouts = channel.sent.probeTimeouts
    let isSilent = silenceEnds <= now
    if isSilent { channel.pathFails() }
    continueMove(now: now, send: send)
    let failed = channel.expire(now: now, floor: floor, send: send)
    askForProof(since: timeouts, now: now)
    if failed || isSilent {
      nextProbeRequest = now
      pathWentDown = now
      owner.sessionPathWentDown(self, now: now)
    }
    if nextProbeRequest <= now {
      // As often as the client proves its path by itself (wire document, section 6): a phone without UDP may sleep.
      let isFresh = now - pathWentDown < WireTimes.probeFast
      let isBusy = channel.window.count > 0
      nextProbeRequest =
        now + (isFresh ? WireTimes.probeEvery : isBusy ? WireTimes.probeBusy : WireTimes.probeSlow)
      channel.writeStream(.probeRequest) { _ in }
    }
    answerPaths(now: now, send: send)
    channel.flush(now: now, streamRoom: streamRoom, floor: floor, send: send)
  }

  private func answerPaths(now: Instant, send: (Span<UInt8>, PeerAddress) -> Void) {
    for token in pongs {
      guard let peer = channel.peer else { break }
      channel.sendPong(token, to: peer, now: now, send: send)
    }
    pongs.removeAll()
    while let answer = paths.poll(proven: channel.path == .up ? provenAddress : nil, random: random) {
      channel.sendControl(
        answer.commands, padded: answer.isPadded, eliciting: false, to: answer.address, now: now, send: send)
      // With a move under way each datagram is counted where it leaves.
      if move == nil, answer.isPadded { paths.noteSent(WireLimits.maximumDatagramBytes, to: answer.address) }
    }
  }
}
