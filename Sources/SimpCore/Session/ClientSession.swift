/// What a client learns from its session.
public enum ClientEvent: Sendable {
  /// The login succeeded. The driver makes the datagram keys from `takeUDPSecret` (the reply here is without it) and
  /// calls `startUDP`.
  case loggedIn(LoginReply)
  /// The login failed, or the server ended the session. The connection is over.
  case ended(Refusal)
  /// The application may see this message.
  case message(IncomingMessage)
  /// A message of the outbox is held by a server.
  case accepted(MessageKey, Transport, sent: Instant?)
  /// It was refused for now, or waits behind one of its conversation that was.
  case later(MessageKey, ErrorCode, sent: Instant?)
  /// It is finished and out of the outbox: delivered, stored, read, rejected with a code, or expired.
  case finished(MessageKey, MessageState, ErrorCode, MessageJourney, Transport)
  /// What became of messages that were STORED. It names what the outbox does not hold any more; the server is told that
  /// this was heard.
  case followed(conversation: UInt32, MessageState, [ClosedRange<UInt64>])
  /// The server sees this client's datagrams come from here, and the path is proven both ways.
  case pathUp(observed: String)
  case pathDown
  case pong(token: UInt64, Transport)
  /// What came of `ask`, by the number it gave.
  case answered(UInt16, Result<SessionAnswer, Refusal>)
  /// The connection is of no use: the peer broke the protocol, or was silent for too long.
  case failed(String)
}

/// A client's side of one connection, from login to end: packets in, packets out, events for the application. The
/// outbox and the inbound conversations outlive it.
///
/// Sans-I/O: the driver feeds bytes and time, writes what `takeStream()` and `flush` give, and looks at
/// `takeEvents()` after each input.
public final class ClientSession {
  enum State { case loggingIn, active, ended }

  public let channel = Channel()
  let outbox: Outbox
  let inbound: InboundMessages
  private(set) var state = State.loggingIn
  private var events: [ClientEvent] = []
  private(set) var reply: LoginReply?
  private var udpSecret: [UInt8] = []
  private let loginDeadline: Instant
  private let isSendOnly: Bool

  private var lastHeard: Instant
  private var lastPing: Instant
  /// When the server was asked whether it lives, for a gap was to be passed over; nil while none waits for the answer.
  private var gapsAsked: Instant?
  private var lastRequest: UInt16 = 15
  private var nextOverdueCheck = Instant.never
  private var windowBytes = WireLimits.windowBytes
  var prover = PathProver()

  /// Begins with the login packet.
  ///
  /// - Parameter login: token, room, ciphers; outbox id and device number are filled in from the outbox.
  public init(
    _ login: Login, outbox: Outbox, inbound: InboundMessages, keyLimits: KeyLimits = KeyLimits(),
    redundancy: Redundancy = .idle, now: Instant
  ) {
    self.outbox = outbox
    self.inbound = inbound
    isSendOnly = login.sendOnly
    lastHeard = now
    lastPing = now
    loginDeadline = now + WireTimes.login
    channel.phases.limits = keyLimits
    channel.redundancy.mode = redundancy
    var login = login
    login.outboxId = outbox.id
    login.deviceNumber = outbox.deviceNumber
    login.features |= WireFeatures.keptOutcomes
    channel.writeStream(.login, sequence: 1, payload: login.append)
  }

  public var isActive: Bool { state == .active }
  public var path: PathState { channel.path }
  /// Why the session goes on without UDP, nil while it need not.
  public var udpEnd: UDPEnd? { channel.udpEnd }
  public var rtt: RTTEstimator { channel.rtt }
  public var counters: ChannelCounters { channel.snapshot() }
  /// How its datagrams fare.
  public var pathStatistics: PathStatistics { channel.pathStatistics }

  /// What is to be written to the connection, in order.
  public func takeStream() -> [UInt8] { channel.takeStream() }

  /// What happened since the last call.
  public func takeEvents() -> [ClientEvent] {
    if state == .active {
      for key in channel.takeAccepted() { markAccepted(key, .udp, now: lastHeard) }
    }
    for message in inbound.takeReady() { events.append(.message(message)) }
    defer { events.removeAll(keepingCapacity: true) }
    return events
  }

  // MARK: - Input

  /// Bytes from the TCP connection.
  public func receive(stream bytes: Span<UInt8>, now: Instant) {
    guard state != .ended else { return }
    lastHeard = now
    channel.assembler.append(bytes)
    do throws(WireError) {
      while state != .ended, let packet = try channel.assembler.next() {
        let header = try PacketHeader(reading: packet.span, limit: packet.count)
        let payload = packet.span.extracting(WireLimits.headerBytes..<packet.count)
        _ = try handle(header, payload, .tcp, now: now)
      }
    } catch {
      fail("the server broke the protocol: \(error)")
    }
  }

  /// A datagram from the server's address; decrypted in place.
  public func receive(datagram: inout MutableSpan<UInt8>, now: Instant) {
    guard state == .active else { return }
    _ = channel.receive(datagram: &datagram, now: now) { (header, payload) throws(WireError) -> Bool in
      try self.handle(header, payload, .udp, now: now)
    }
  }

  /// What the datagram keys come from, once: the session keeps nothing of it, and the caller wipes it.
  public func takeUDPSecret() -> [UInt8] {
    defer { udpSecret = [] }
    return udpSecret
  }

  /// The keys are made: UDP begins with a challenge, which the next `flush` sends.
  ///
  /// - Parameter seed: random, for the tokens of challenges and the packet numbers that are left out.
  public func startUDP(_ protection: any DatagramProtection, server: PeerAddress, seed: UInt64, now: Instant) {
    guard let reply, state == .active else { return }
    channel.startProbing(protection, connectionId: reply.connectionId, seed: ~seed, now: now)
    channel.peer = server
    let told = Interval.milliseconds(Int64(reply.udpKeepAliveMilliseconds))
    prover.keepAlive = min(max(told, .seconds(1)), .seconds(120))
    prover.start(seed: seed, now: now)
  }

  /// The outbox has something new.
  ///
  /// - Parameter isAwaited: an application waits for the receipt, so it is asked for at once.
  public func wake(isAwaited: Bool) {
    if isAwaited { channel.isAwaited = true }
  }

  /// The application took a message, or acknowledged it by hand.
  public func acknowledge(from user: String, device: UInt32, order: UInt64, now: Instant) {
    channel.outcomes.add(.delivered, user: user, device: device, order: order, now: now)
  }

  /// Asks for an answer by this way; it comes as `pong`. By UDP nothing is sent unless the path is up.
  public func ping(_ token: UInt64, via transport: Transport, now: Instant, send: (Span<UInt8>, PeerAddress) -> Void) {
    guard state == .active else { return }
    switch transport {
    case .tcp: channel.writeStream(.ping, sequence: 3) { $0.appendField(1, fixed64: token) }
    case .udp:
      guard channel.path == .up, let peer = channel.peer else { return }
      channel.sendControl([(.ping, token)], padded: false, eliciting: true, to: peer, now: now, send: send)
    }
  }

  /// Asks the server for something; the answer comes as `answered`.
  ///
  /// - Returns: the request's number; nil when there is no session.
  public func ask(_ request: SessionRequest) -> UInt16? {
    guard state == .active else { return nil }
    // Below 16 are the requests that have a number of their own.
    lastRequest = lastRequest == .max ? 16 : lastRequest + 1
    channel.writeStream(request.command, sequence: lastRequest, payload: request.append)
    return lastRequest
  }

  /// Says goodbye: the server ends the session when it has answered. What the application took and no receipt said
  /// yet goes before it, for nothing is read after a goodbye.
  public func logout(now: Instant) {
    guard state == .active else { return }
    channel.writeOutcomes(now: now)
    channel.writeStream(.logout, sequence: 4) { _ in }
  }

  /// The connection is gone. What is not finished is offered again in the next session, and no gap closes until then.
  public func connectionClosed(now: Instant) {
    for (key, entry) in channel.window.entries { outbox.note(entry, of: key) }
    state = .ended
    outbox.sessionEnded()
    inbound.standStill(now: now)
  }

  // MARK: - Time and output

  /// When `flush` is to be called next, if nothing else happens.
  public func deadline(now: Instant) -> Instant {
    switch state {
    case .ended: return .never
    case .loggingIn: return loginDeadline
    case .active: break
    }
    var next = min(channel.deadline(now: now), nextOverdueCheck)
    let busy = channel.window.count > 0
    next = min(next, prover.deadline(path: channel.path, isBusy: busy, lastSent: channel.lastDeparture))
    next = min(next, outbox.deadline ?? .never, gapsAsked == nil ? inbound.deadline ?? .never : .never)
    return min(next, lastPing + keepAlive, lastHeard + idleTimeout)
  }

  /// Lets time do its work and sends what is due.
  ///
  /// - Parameters:
  ///   - streamRoom: bytes that the socket's queue may still take; the driver then writes `takeStream()`.
  ///   - send: takes sealed datagrams.
  public func flush(now: Instant, streamRoom: Int, send: (Span<UInt8>, PeerAddress) -> Void) {
    guard state == .active else {
      if state == .loggingIn, loginDeadline <= now { fail("the server did not answer the login within 10 s") }
      return
    }
    let floor = { (key: MessageKey) in self.outbox.floor(of: key) }
    if channel.expire(now: now, floor: floor, send: send) {
      prover.pathWentDown(now: now)
      events.append(.pathDown)
    }
    keepAlive(now: now)
    passGaps(now: now)
    outbox.resume(now: now)
    offerOverdue(now: now)
    fillWindow()
    for (key, code) in outbox.takeWaitingBehind() { events.append(.later(key, code, sent: firstSent(key))) }
    sendChallenge(now: now, send: send)
    channel.flush(now: now, streamRoom: streamRoom, floor: floor, send: send)
  }

  private func fillWindow() {
    while channel.window.count < channel.windowMessages, channel.window.bytes < windowBytes {
      guard let offer = outbox.nextOffer() else { break }
      channel.insert(offer.key, offer.message, byTCP: offer.byTCP)
    }
  }

  private func offerOverdue(now: Instant) {
    // An empty outbox wakes nobody.
    guard outbox.count > 0 else {
      nextOverdueCheck = .never
      return
    }
    nextOverdueCheck = min(nextOverdueCheck, now + .seconds(1))
    guard nextOverdueCheck <= now else { return }
    nextOverdueCheck = now + .seconds(1)
    // Its final receipt has two hops and two queues to pass.
    let age = rtt.patience(WireTimes.acceptedWithoutFinal, trips: 3, limit: .seconds(8))
    for key in outbox.overdue(since: age, now: now) { channel.window.offerAgain(key) }
  }

  private func sendChallenge(now: Instant, send: (Span<UInt8>, PeerAddress) -> Void) {
    guard let peer = channel.peer else { return }
    if let answer = prover.takeAnswer() {
      channel.sendControl([(.pathResponse, answer)], padded: false, eliciting: false, to: peer, now: now, send: send)
    }
    let isBusy = channel.window.count > 0
    switch prover.poll(now: now, path: channel.path, isBusy: isBusy, lastSent: channel.lastDeparture) {
    case .keepAlive:
      channel.sendControl([(.ping, 0)], padded: false, eliciting: true, to: peer, now: now, send: send)
    case .challenge(let token):
      channel.sendControl([(.pathChallenge, token)], padded: true, eliciting: false, to: peer, now: now, send: send)
    case nil:
      break
    }
  }

  private var keepAlive: Interval { Self.told(reply?.tcpKeepAliveMilliseconds, otherwise: WireTimes.tcpKeepAlive) }
  private var idleTimeout: Interval { Self.told(reply?.idleTimeoutMilliseconds, otherwise: WireTimes.idleTimeout) }

  /// A time that the server told; 0 says nothing. A client that would ping or give up at every turn is of no use.
  private static func told(_ milliseconds: UInt32?, otherwise usual: Interval) -> Interval {
    guard let milliseconds, milliseconds > 0 else { return usual }
    return max(.milliseconds(Int64(milliseconds)), WireTimes.shortestTold)
  }

  /// A window that the server told; 0 says nothing.
  private static func granted(_ told: UInt64, most: Int) -> Int { told == 0 ? most : min(Int(clamping: told), most) }

  private func keepAlive(now: Instant) {
    if lastHeard + idleTimeout <= now {
      return fail("the server was silent for \(Int(idleTimeout.milliseconds / 1000)) s")
    }
    guard lastPing + keepAlive <= now else { return }
    lastPing = now
    channel.writeStream(.ping, sequence: 2) { _ in }
  }

  /// After this long without a sign of life a server may stand still, with what closes a gap in its hands.
  private static let silence = Interval.seconds(2)

  /// Passes over the gaps that were waited for long enough, if the server lives: one that was silent is asked first, by
  /// TCP, and the gaps wait for its answer. If it never comes, the session ends, and with it their clock.
  private func passGaps(now: Instant) {
    guard let deadline = inbound.deadline, deadline <= now else {
      gapsAsked = nil
      return
    }
    let heard = max(lastHeard, channel.lastArrival)
    if let asked = gapsAsked {
      guard heard >= asked else { return }
      gapsAsked = nil
    } else if heard + Self.silence <= now {
      gapsAsked = now
      lastPing = now
      return channel.writeStream(.ping, sequence: 2) { _ in }
    }
    inbound.expire(now: now)
  }

  private func fail(_ reason: String) {
    guard state != .ended else { return }
    state = .ended
    events.append(.failed(reason))
  }

  // MARK: - Packets

  /// - Returns: whether a message was taken; true for everything else.
  private func handle(
    _ header: PacketHeader, _ payload: Span<UInt8>, _ transport: Transport, now: Instant
  ) throws(WireError) -> Bool {
    if state == .loggingIn {
      try handleLoginAnswer(header, payload, now: now)
      return true
    }
    switch header.command {
    case .message: return try handleMessage(payload, transport, now: now)
    case .receipt: try handleReceipt(payload, transport, now: now)
    case .ping: try handlePing(header, payload, transport)
    case .ended where transport == .tcp: end(try Refusal(reading: payload))
    case .logout where header.isStreamResponse(transport): end(Refusal(.unspecified, "logged out"))
    case .pathChallenge where transport == .udp: prover.challenged(try TokenPayload.read(payload))
    case .pathResponse where transport == .udp: pathResponded(try TokenPayload.read(payload), now: now)
    case .pathUp where transport == .tcp:
      prover.confirmed(now: now)
      events.append(.pathUp(observed: try PathUpPayload.read(payload)))
    case .probeRequest where transport == .tcp: prover.request(now: now)
    case .renew where header.isStreamResponse(transport), .kick where header.isStreamResponse(transport),
      .counters where header.isStreamResponse(transport):
      try handleAnswer(header, payload)
    default:
      // A newer server's command: an answer needs none, a request gets a typed error.
      if !header.flags.contains(.response), transport == .tcp {
        channel.writeError(Refusal(.unknownCommand, "unknown command"), to: header)
      }
    }
    return true
  }

  private func handleLoginAnswer(_ header: PacketHeader, _ payload: Span<UInt8>, now: Instant) throws(WireError) {
    if header.command == .ended { return end(try Refusal(reading: payload)) }
    guard header.command == .login, header.flags.contains(.response) else { throw .malformed }
    if header.flags.contains(.error) { return end(try Refusal(reading: payload)) }
    var reply = try LoginReply(reading: payload)
    udpSecret = reply.udpSecret
    reply.udpSecret = []
    self.reply = reply
    channel.windowMessages = Self.granted(UInt64(reply.windowMessages), most: WireLimits.windowMessages)
    windowBytes = Self.granted(reply.windowBytes, most: WireLimits.windowBytes)
    state = .active
    channel.assembler.limit = min(Int(reply.maximumPacketBytes), WireLimits.maximumPacketBytes)
    lastPing = now
    nextOverdueCheck = now + .seconds(1)
    outbox.adopt(deviceNumber: reply.deviceNumber)
    inbound.goOn(now: now)
    events.append(.loggedIn(reply))
  }

  private func handleMessage(_ payload: Span<UInt8>, _ transport: Transport, now: Instant) throws(WireError) -> Bool {
    guard !isSendOnly else { return false }
    let message = try IncomingMessage(reading: payload, transport: transport)
    switch inbound.receive(message, now: now) {
    case .taken, .waiting: return true
    case .receiptAgain:
      channel.outcomes.add(.delivered, user: message.from, device: message.device, order: message.order, now: now)
      return true
    case .refused:
      // The server holds it until it hears of it: LATER gives it back to the sender.
      channel.outcomes.add(
        .later, user: message.from, device: message.device, order: message.order, code: .noRoom, now: now)
      return false
    }
  }

  private func handlePing(_ header: PacketHeader, _ payload: Span<UInt8>, _ transport: Transport) throws(WireError) {
    let token = try TokenPayload.read(payload)
    if header.flags.contains(.response) {
      events.append(.pong(token: token, transport))
    } else if transport == .tcp {
      channel.writeStream(.ping, flags: .response, sequence: header.sequence) { $0.appendField(1, fixed64: token) }
    }
  }

  private func handleAnswer(_ header: PacketHeader, _ payload: Span<UInt8>) throws(WireError) {
    if header.flags.contains(.error) {
      events.append(.answered(header.sequence, .failure(try Refusal(reading: payload))))
    } else if let answer = try SessionAnswer(header.command, reading: payload) {
      events.append(.answered(header.sequence, .success(answer)))
    }
  }

  private func pathResponded(_ token: UInt64, now: Instant) {
    guard prover.responded(token, now: now), channel.path != .off, let peer = channel.peer else { return }
    channel.pathProven(peer, now: now)
  }

  private func end(_ refusal: Refusal) {
    guard state != .ended else { return }
    state = .ended
    events.append(.ended(refusal))
  }

  // MARK: - Receipts

  private func handleReceipt(_ payload: Span<UInt8>, _ transport: Transport, now: Instant) throws(WireError) {
    let receipt = try Receipt(reading: payload)
    // Outcomes only on TCP; before part (a), so that ACCEPTED is never said of what was refused.
    if transport == .tcp {
      for outcome in receipt.outcomes { handle(outcome, now: now) }
    }
    if let datagrams = receipt.datagrams {
      try channel.receive(datagrams, byUDP: transport == .udp, now: now)
      if transport == .udp { prover.confirmed(now: now) }
      for key in channel.takeAccepted() { markAccepted(key, .udp, now: now) }
    }
  }

  private func handle(_ outcome: Outcome, now: Instant) {
    if outcome.isKept { sayBack(outcome, now: now) }
    guard let index = outbox.conversationIndex(of: outcome.user) else { return }
    let open = outbox.openOrders(index)
    var followed = outcome.isFollowing ? outcome.orders.compactMap { $0.part(below: open.lowerBound) } : []
    for range in outcome.orders {
      let orders =
        max(
          range.lowerBound, open.lowerBound)..<min(range.upperBound &+ 1, open.upperBound)
        .clampedAbove(max(range.lowerBound, open.lowerBound))
      for order in orders {
        let isOpen = apply(outcome, to: MessageKey(conversation: index, order: order), now: now)
        if !isOpen, outcome.isFollowing { followed.append(order...order) }
      }
    }
    if !followed.isEmpty { events.append(.followed(conversation: index, outcome.state, followed)) }
  }

  /// The server keeps it until then. Also of what this outbox does not know: nothing else would end it.
  private func sayBack(_ outcome: Outcome, now: Instant) {
    for orders in outcome.orders {
      channel.outcomes.add(kept: outcome.state, user: outcome.user, orders: orders, now: now)
    }
  }

  /// - Returns: false for an outcome that ends a message, of one that is not in the outbox.
  private func apply(_ outcome: Outcome, to key: MessageKey, now: Instant) -> Bool {
    switch outcome.state {
    case .accepted:
      _ = channel.window.accept(key)
      markAccepted(key, .tcp, now: now)
    case .later:
      if let entry = channel.window.remove(key) { outbox.note(entry, of: key) }
      let wait = Interval.milliseconds(Int64(min(max(outcome.retryAfterMilliseconds, 10), 60_000)))
      if outbox.markLater(key, code: outcome.code, resume: now + wait) {
        events.append(.later(key, outcome.code, sent: firstSent(key)))
      }
    case .stored, .delivered, .read, .rejected, .expired:
      let entry = channel.window.remove(key)
      guard let finished = outbox.finish(key) else { return false }
      var journey = finished.journey
      if let entry { journey.add(entry) }
      let transport: Transport = entry.map { $0.byUDP && !$0.byTCP } ?? false ? .udp : .tcp
      events.append(
        .finished(key, outcome.state, outcome.code, journey, transport))
    case .unspecified:
      break  // a newer server's state
    }
    return true
  }

  private func markAccepted(_ key: MessageKey, _ transport: Transport, now: Instant) {
    if outbox.markAccepted(key, now: now) { events.append(.accepted(key, transport, sent: firstSent(key))) }
  }

  private func firstSent(_ key: MessageKey) -> Instant? {
    var journey = outbox.journey(of: key) ?? MessageJourney()
    if let entry = channel.window.entries[key] { journey.add(entry) }
    return journey.firstSent
  }
}

extension PacketHeader {
  fileprivate func isStreamResponse(_ transport: Transport) -> Bool { flags.contains(.response) && transport == .tcp }
}

extension Outcome {
  /// It may come after STORED.
  fileprivate var isFollowing: Bool { state == .delivered || state == .read || state == .expired }
}

extension ClosedRange<UInt64> {
  /// What of it lies below `end`, and is an order.
  fileprivate func part(below end: UInt64) -> Self? {
    let first = Swift.max(lowerBound, 1)
    return first <= upperBound && first < end ? first...Swift.min(upperBound, end - 1) : nil
  }
}

extension UInt64 {
  /// The value, but at least `low`.
  fileprivate func clampedAbove(_ low: UInt64) -> UInt64 { Swift.max(self, low) }
}
