internal import SimpCore
internal import SimpSupport

extension Switchboard: ServerSessionOwner {
  func session(_ session: ServerSession, wantsLogin login: Login, now: Instant) {
    if let refusal = entries[session.id]?.turnedAway ?? ports.refusesLogins() {
      return refuse(session, refusal, now: now)
    }
    switch ports.claims(of: login.token) {
    case .failure(let failure):
      refuse(session, failure.refusal, now: now)
    case .success(let claims):
      guard !isRevoked(claims) else { return refuse(session, Self.revoked, now: now) }
      ports.openSession(user: claims.user, login: login, proposedEpoch: ports.nextEpoch()) { [weak self] grant in
        self?.open(session.id, claims, login: login, grant: grant)
      }
    }
  }

  private func refuse(_ session: ServerSession, _ refusal: Refusal, now: Instant) {
    counters.loginsRefused.add()
    if let before = refusalLog.line(now: now) {
      log.warn("login refused", ["session": session.id, "reason": refusal.text, "not_logged_before": before])
    }
    session.refuse(refusal, now: now)
  }

  private func open(_ id: UInt64, _ claims: TokenClaims, login: Login, grant: LoginGrant?) {
    guard let entry = entries[id], !entry.session.isEnded else { return }
    defer { ports.needsFlush(entry) }
    let user = claims.user
    if let until = grant?.revokedUntil { revocations.insert(user, until: until) }
    // Again: it may have come while the store was asked.
    guard !isRevoked(claims) else { return refuse(entry.session, Self.revoked, now: ports.now) }
    guard let grant = grant ?? grantWithoutStore(login) else {
      let refusal = Refusal(.unavailable, "the server's store is away, try again", retryAfterMilliseconds: 1000)
      return refuse(entry.session, refusal, now: ports.now)
    }
    let cipher = udpPort == 0 ? nil : login.ciphers.first(where: ports.isKnown)
    var reply = LoginReply()
    reply.features = login.features & WireFeatures.known
    reply.user = user
    reply.deviceNumber = grant.deviceNumber
    reply.sessionEpoch = grant.epoch
    reply.serverTime = ports.wallClockMilliseconds
    reply.node = node
    reply.windowMessages = UInt32(limits.session.windowMessages)
    reply.windowBytes = UInt64(limits.session.windowBytes)
    reply.tokenExpires = milliseconds(claims.ends)
    if let cipher {
      reply.udpPort = udpPort
      reply.cipher = cipher
      reply.connectionId = freeConnectionId()
      reply.udpSecret = ports.randomBytes(32)
    }
    let protection = cipher.map { ports.makeProtection(secret: reply.udpSecret, cipher: $0) }
    entry.since = reply.serverTime
    entry.rate = rates.begin(user, now: ports.now)
    entry.claims = claims
    entry.session.accept(
      reply, login: login, protection: protection, expires: instant(ofWallClock: claims.ends), now: ports.now)
    ports.wipe(&reply.udpSecret)
    counters.logins.add()
    log.info(
      "login",
      [
        "user": user, "device": grant.deviceNumber, "session": id, "send_only": login.sendOnly,
        "udp": cipher != nil, "software": login.software,
      ])
    enter(entry, connectionId: reply.connectionId)
    entry.session.continueReading(now: ports.now)
  }

  /// While the store is away an outbox that has its number may go on: it was given it before, and no other has it.
  private func grantWithoutStore(_ login: Login) -> LoginGrant? {
    guard login.deviceNumber > 0, login.deviceNumber < 1 << 24 else { return nil }
    return LoginGrant(deviceNumber: login.deviceNumber, epoch: ports.nextEpoch())
  }

  private func freeConnectionId() -> UInt64 {
    while true {
      let id = UInt64(reactor) << 40 | ports.random() & 0xFF_FFFF_FFFF
      if id != 0, entry(connectionId: id) == nil { return id }
    }
  }

  func session(_ session: ServerSession, provedPath address: PeerAddress, now: Instant) {
    guard let entry = entries[session.id] else { return }
    log.info("path up", ["user": session.user, "session": session.id, "address": address])
    if !session.isSendOnly { ports.writeEndpoint(endpoint(of: entry)) }
  }

  func sessionPathWentDown(_ session: ServerSession, now: Instant) {
    guard let entry = entries[session.id] else { return }
    if let end = session.udpEnd {
      log.warn("no more UDP", ["user": session.user, "session": session.id, "reason": end.rawValue])
    } else {
      log.info("path down", ["user": session.user, "session": session.id])
    }
    if !session.isSendOnly { ports.writeEndpoint(endpoint(of: entry)) }
  }

  func session(_ session: ServerSession, endedWith refusal: Refusal, now: Instant) {
    guard let entry = entries[session.id] else { return }
    if refusal.code == .timedOut {
      if session.user.isEmpty { counters.loginsTimedOut.add() } else { counters.sessionsSilent.add() }
    }
    if session.user.isEmpty {
      // Strangers come and go: that is no event.
      log.debug("connection ended", ["session": session.id, "reason": refusal.text])
    } else {
      log.info("session ended", ["user": session.user, "session": session.id, "reason": refusal.text])
    }
    confirmAll(entry)
    leave(entry)
    returnPending(of: entry, now: now)
    ports.sessionEnded(entry)
  }
}
