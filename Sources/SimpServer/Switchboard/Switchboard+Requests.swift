internal import SimpCore
internal import SimpSupport

/// Renewal of tokens, and what administrators may do.
extension Switchboard {
  func session(_ session: ServerSession, asks request: SessionRequest, ticket: RequestTicket, now: Instant) {
    guard let entry = entries[session.id] else { return }
    switch request {
    case .renew(let token): renew(entry, with: token, ticket: ticket, now: now)
    case .kick(let user, let reason):
      guard mayAdminister(entry, ticket) else { return }
      kick(user, reason: reason, by: entry, ticket: ticket, now: now)
    case .counters:
      guard mayAdminister(entry, ticket) else { return }
      session.answer(ticket, .counters(ports.counterValues))
    }
  }

  // MARK: - Renewal

  private func renew(_ entry: SessionEntry, with token: String, ticket: RequestTicket, now: Instant) {
    let session = entry.session
    if let wait = entry.renewals.take(now: now) {
      let milliseconds = UInt32(wait.nanoseconds / 1_000_000) + 1
      return session.refuse(ticket, Refusal(.unavailable, "too many renewals", retryAfterMilliseconds: milliseconds))
    }
    let refusal: Refusal
    switch ports.claims(of: token) {
    case .failure(let failure): refusal = failure.refusal
    case .success(let claims) where claims.user != session.user:
      refusal = Refusal(.forbidden, "the token is another user's")
    case .success(let claims) where isRevoked(claims): refusal = Self.revoked
    case .success(let claims):
      entry.claims = claims
      session.renew(until: instant(ofWallClock: claims.ends))
      log.info("token renewed", ["user": session.user, "session": session.id])
      counters.renewals.add()
      return session.answer(
        ticket, .renewed(expires: milliseconds(claims.ends), serverTime: ports.wallClockMilliseconds))
    }
    log.warn("renewal refused", ["user": session.user, "session": session.id, "reason": refusal.text])
    session.refuse(ticket, refusal)
  }

  /// When a session with a token that ends then ends. Far times are cut: no timer needs them.
  func instant(ofWallClock seconds: UInt64) -> Instant {
    let now = ports.wallClockMilliseconds
    guard milliseconds(seconds) > now else { return seconds > now ? .never : ports.now }
    let left = milliseconds(seconds) - now
    return left < 315_360_000_000 ? ports.now + .milliseconds(Int64(left)) : .never
  }

  /// 0 for times beyond what 64 bits hold.
  func milliseconds(_ seconds: UInt64) -> UInt64 {
    let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
    return overflow ? 0 : product
  }

  // MARK: - Administration

  private func mayAdminister(_ entry: SessionEntry, _ ticket: RequestTicket) -> Bool {
    if entry.claims.isAdmin { return true }
    log.warn("not an administrator", ["user": entry.session.user, "session": entry.session.id])
    entry.session.refuse(ticket, Refusal(.forbidden, "this needs an administrator's token"))
    return false
  }

  private func kick(_ user: String, reason: String, by entry: SessionEntry, ticket: RequestTicket, now: Instant) {
    // An issuer's clock may be ahead: what it issued before now may bear a time up to this.
    let until = ports.wallClockMilliseconds / 1000 + ports.leewaySeconds
    log.warn("user sent away", ["user": user, "by": entry.session.user, "session": entry.session.id])
    counters.kicks.add()
    let id = entry.session.id
    ports.storeRevocation(user: user, until: until) { [weak self] isStored in
      guard let self, let entry = self.entries[id] else { return }
      entry.session.answer(ticket, .kicked(issuedUntil: until * 1000, isStored: isStored))
      self.ports.needsFlush(entry)
    }
    let kick = Kick(user: user, until: until, reason: reason)
    tellOthers(.kicked(kick))
    carryOut(kick, now: now)
  }

  /// Ends the user's sessions of this reactor, and remembers.
  func carryOut(_ kick: Kick, now: Instant) {
    revocations.insert(kick.user, until: kick.until)
    let text = kick.reason.isEmpty ? Self.revoked.text : "an administrator ended it: \(kick.reason)"
    for entry in Array(entries.values) where entry.session.user == kick.user {
      entry.session.end(Refusal(.tokenRevoked, text), now: now)
    }
  }

  func isRevoked(_ claims: TokenClaims) -> Bool {
    revocations.refuses(claims, wallClockSeconds: ports.wallClockMilliseconds / 1000)
  }

  static let revoked = Refusal(
    .tokenRevoked, "an administrator sent this user away: tokens issued before that are refused")

  /// The store was away, or lost what it held.
  func rewriteRevocations() {
    for (user, until) in revocations.until { ports.storeRevocation(user: user, until: until) { _ in } }
  }
}
