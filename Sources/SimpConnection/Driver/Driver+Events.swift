package import SimpCore
internal import SimpIO
internal import SimpStore

extension Driver {
  /// Does what the session reports, and tells those who wait.
  func handleEvents(now: Instant) {
    while phase == .online, let session {
      let events = session.takeEvents()
      if events.isEmpty { return }
      handle(events, of: session, now: now)
    }
  }

  private func handle(_ events: [ClientEvent], of session: ClientSession, now: Instant) {
    var arrived: [IncomingMessage] = []
    var finished: [(message: OpenMessage, end: ReceiptEnd, sent: Interval?)] = []
    var follows: [(conversation: UInt32, state: MessageState, orders: [ClosedRange<UInt64>])] = []
    var ending: ClientEvent?
    for event in events {
      switch event {
      case .message(let message):
        arrived.append(message)
      case .accepted(let key, _, let sent):
        if let message = open[key] { message.move(to: .accepted, sent: sent, now: now) }
      case .later(let key, _, let sent):
        if let message = open[key] { message.move(to: .later, sent: sent, now: now) }
      case .finished(let key, let state, let code, let journey, let transport):
        guard let message = open.removeValue(forKey: key) else { continue }
        let delivery = SIMPDelivery(
          elapsed: Duration(now - message.posted), transport: SIMPTransport(transport), attempts: journey.attempts)
        let sent = journey.firstSent.map { $0 - message.posted }
        finished.append((message, count(state, code, delivery), sent))
        if state == .stored, isTold { followed.insert(message.receipt, posted: message.posted, key: key) }
      case .followed(let conversation, let state, let orders):
        // First what came before it: a receipt is told in the order of the states.
        follows.append((conversation, state, orders))
      case .loggedIn(let reply):
        loggedIn(reply, now: now)
      case .ended, .failed:
        // Last of all: what came with it counts as shown from here on, and nobody would offer it a second time.
        ending = ending ?? event
      case .pathUp(let observed):
        // The server may say it again.
        if observed != observedAddress { shownPath.reset() }
        observedAddress = observed
      case .pathDown:
        shownPath.reset()
        show(.pathDown)
      case .pong(let token, _):
        guard let ping = pings.removeValue(forKey: token) else { continue }
        ping.answer.update { $0 = .success(Duration(now - ping.sent)) }
      case .answered(let number, let result):
        answered(number, result)
      }
    }
    // Handed over together: whoever waits is woken once for all of them.
    if !arrived.isEmpty { take(arrived) }
    if !finished.isEmpty {
      writer?.finish(finished.map(\.message.counter))
      // First: who waits for this looks at the counts next.
      publish()
      for (message, end, sent) in finished {
        message.receipt.finish(
          end.state, outcome: end.outcome, isLast: !isTold, sent: sent, after: now - message.posted)
      }
      outgoing.update { $0.finish(messages: finished.count, bytes: finished.reduce(0) { $0 + $1.message.bytes }) }
    }
    for (conversation, state, orders) in follows {
      guard let state = SIMPReceipt.State(following: state) else { continue }
      followed.follow(state, conversation: conversation, orders: orders, now: now)
    }
    switch ending {
    case .ended(let refusal): ended(refusal, now: now)
    case .failed(let reason): lost(SIMPError(.connectionLost, reason), now: now)
    default: break
    }
  }

  /// With a store the application sees them when they are in it.
  private func take(_ messages: [IncomingMessage]) {
    tally.received += UInt64(messages.count)
    tally.receivedByUDP += UInt64(messages.count { $0.transport == .udp })
    if let writer { return writer.receive(messages) }
    // First: who waits for them looks at the counts next.
    publish()
    inbox.update { $0.append(messages.map { show(ReceivedMessage(id: 0, message: $0)) }) }
  }

  /// What the application sees of a message.
  func show(_ received: ReceivedMessage) -> SIMPMessage {
    let taken = TakenMessage(received)
    switch configuration.acknowledgement {
    case .automatic: return SIMPMessage(received, taken: taken, acknowledgement: nil)
    case .manual:
      return SIMPMessage(received, taken: taken, acknowledgement: Acknowledgement(taken, driver: self))
    }
  }

  private typealias ReceiptEnd = (state: SIMPReceipt.State, outcome: Result<SIMPDelivery, SIMPError>)

  /// Counts a message that is finished, and says how its receipt ends.
  private func count(_ state: MessageState, _ code: ErrorCode, _ delivery: SIMPDelivery) -> ReceiptEnd {
    switch state {
    case .delivered, .read:
      tally.delivered += 1
      return (state == .read ? .read : .delivered, .success(delivery))
    case .stored:
      tally.stored += 1
      return (.stored, .success(delivery))
    case .expired:
      tally.failed += 1
      return (.expired, .failure(SIMPError(.expired, "the message's time ran out")))
    case .rejected, .unspecified, .accepted, .later:
      tally.failed += 1
      return (.rejected, .failure(SIMPError(.rejected, "the server refuses it: \(code.words)")))
    }
  }

  private func loggedIn(_ reply: LoginReply, now: Instant) {
    tally.logins += 1
    let agreement = stream?.agreement
    if agreement?.isResumed == true { tally.resumed += 1 }
    sessionBegan = now
    isTold = reply.features & WireFeatures.keptOutcomes != 0
    if !isTold { followed.endAll() }
    guard claimStore(for: reply) else { return }
    for (key, message) in open { message.receipt.identify(outbox.messageId(of: key)) }
    startUDP(reply, now: now)
    let cipher: String? =
      switch (socket, reply.cipher) {
      case (nil, _): nil
      case (_, AEADProtection.aes128GCM): "AES-128-GCM"
      case (_, _): "ChaCha20-Poly1305"
      }
    let session = SIMPSession(
      user: reply.user, deviceNumber: reply.deviceNumber, node: reply.node, cipher: cipher,
      tls: agreement.map { "TLS 1.3, \($0.cipher)" },
      tokenLifetime: tokenLasts(until: reply.tokenExpires, serverTime: reply.serverTime, now: now))
    show(.connected(session))
    standing.update { standing in
      standing.hasLoggedIn = true
      standing.lastFailure = nil
    }
  }

  /// The server refused the login, or ended the session.
  private func ended(_ refusal: Refusal, now: Instant) {
    if isClosing { return end(nil) }
    let hadSession = sessionBegan != nil
    let retryAfter = Interval.milliseconds(Int64(refusal.retryAfterMilliseconds))
    let spread = Interval.milliseconds(Int64(refusal.retrySpreadMilliseconds))
    let error = SIMPError(refusal, hadSession: hadSession)
    switch refusal.code {
    case .replaced:
      end(error)
    case _ where refusal.isPassing:
      lost(error, retryAfter: retryAfter, spread: spread, now: now)
    case .tokenExpired where hadSession && (configuration.tokenProvider != nil || isTokenFresh):
      lost(error, retryAfter: retryAfter, spread: spread, now: now)
    default:
      if retryAfter > .zero { lost(error, retryAfter: retryAfter, spread: spread, now: now) } else { end(error) }
    }
  }

  /// Tells that the path is up when both ends know it: the server's word brings the address, datagrams the rest. Then
  /// when a direction loses too much, and when it does no more.
  func showPath() {
    guard let session, session.path == .up, let observedAddress else { return }
    let up = SIMPState.pathUp(address: observedAddress, rtt: session.rtt.latest.map { Duration($0) })
    let statistics = session.pathStatistics
    for news in shownPath.news(sending: statistics.sending, receiving: statistics.receiving) {
      let (to, from) = (statistics.sendingLoss, statistics.receivingLoss)
      show(news == .up ? up : .pathDegraded(sendingLoss: to, receivingLoss: from))
    }
  }

  /// Asks for an answer, which comes as `pong`.
  func ping(_ transport: SIMPTransport, answer: Watched<Result<Duration, SIMPError>?>) {
    let now = thread.loop.now
    guard phase == .online, let session, session.isActive else {
      return answer.update { $0 = .failure(SIMPError(.connectionLost, "there is no session at present")) }
    }
    if transport == .udp, session.path != .up {
      return answer.update { $0 = .failure(SIMPError(.noPath, "datagrams do not pass at present")) }
    }
    var token = RandomBytes.uint64()
    while token == 0 || pings[token] != nil { token = RandomBytes.uint64() }
    // BOUND: a caller that does not wait for its answers loses the oldest.
    if pings.count >= 64, let oldest = pings.min(by: { $0.value.sent < $1.value.sent })?.key {
      pings.removeValue(forKey: oldest)?.answer.update { $0 = .failure(SIMPError(.timedOut, "no answer came")) }
    }
    pings[token] = OpenPing(sent: now, answer: answer)
    session.ping(token, via: transport == .udp ? .udp : .tcp, now: now) { datagram, address in
      socket?.send(datagram, to: address)
    }
    markDirty()
  }
}

extension SIMPReceipt.State {
  /// What may become of a message that is stored.
  fileprivate init?(following state: MessageState) {
    switch state {
    case .delivered: self = .delivered
    case .read: self = .read
    case .expired: self = .expired
    default: return nil
    }
  }
}

extension SIMPError {
  package init(_ refusal: Refusal, hadSession: Bool) {
    let code: Code =
      switch refusal.code {
      case .tokenInvalid, .tokenNotYetValid, .tokenAudience, .tokenIssuer, .tokenKeyUnknown: .tokenInvalid
      case .tokenExpired: .tokenExpired
      case .tokenRevoked: .revoked
      case .forbidden: .forbidden
      case .replaced: .replaced
      case .shuttingDown, .unavailable, .overloaded, .tooManyConnections, .timedOut: .unavailable
      default: .refused
      }
    let what = hadSession ? "the server ended the session" : "the server refused the login"
    let why = refusal.text.isEmpty ? refusal.code.words : refusal.text
    self.init(
      code, "\(what): \(why)",
      retryAfter: refusal.retryAfterMilliseconds > 0 ? .milliseconds(refusal.retryAfterMilliseconds) : nil)
  }
}

extension Refusal {
  /// It says how the server fares, or the way to it, and nothing of who came: the same login may pass the next time
  /// (WIRE.md, section 12).
  package var isPassing: Bool {
    [.shuttingDown, .unavailable, .overloaded, .tooManyConnections, .notReading, .timedOut].contains(code)
  }
}

extension ErrorCode {
  /// The code for a person.
  var words: String {
    switch self {
    case .malformed: "it is malformed"
    case .nameInvalid: "a user name is outside [A-Za-z0-9._@-]{1,64}"
    case .tooLarge: "it is too large"
    case .textInvalid: "a text is not UTF-8, or holds U+0000"
    case .fieldForbidden: "a field is set that only the server may set"
    case .deviceMismatch: "its number belongs to another device"
    case .outsideWindow: "too many earlier messages have no final receipt"
    case .sendOnly: "the session only sends"
    case .unavailable: "the server cannot serve at present"
    case .shuttingDown: "the server is going down"
    case .replaced: "the same user logged in elsewhere"
    case .tokenInvalid: "the token is not valid here"
    case .tokenExpired: "the token's time is over"
    case .tooManyConnections: "there are too many connections"
    case .overloaded: "the server has more logins than it can take"
    case .rateLimited: "this user sends more than its share"
    case .notReading: "too much was left unread"
    case .tokenNotYetValid: "the token's time has not come"
    case .tokenAudience: "the token is for another server"
    case .tokenIssuer: "the token is of another issuer"
    case .tokenKeyUnknown: "the token's key is not known there"
    case .tokenRevoked: "an administrator sent this user away"
    case .forbidden: "not with this token"
    default: "code \(rawValue)"
    }
  }
}
