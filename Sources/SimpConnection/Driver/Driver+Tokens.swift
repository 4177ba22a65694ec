internal import SimpCore
internal import SimpIO

/// When the token of a session is over, and when something is to be done about it.
struct TokenExpiry {
  /// `never` without a session, and where the server does not say.
  private(set) var end = Instant.never
  /// When to ask for the next token.
  private(set) var next = Instant.never
  /// The application was told.
  var isTold = false
  /// A token is being asked for.
  var isRenewing = false

  /// The longest time before the end at which a new token is asked for.
  static let longestLead = Interval.seconds(300)

  init() {}

  /// - Parameter left: how long the token lasts from now.
  init(left: Interval, now: Instant) {
    end = now + left
    plan(now: now)
  }

  func left(now: Instant) -> Interval { end - now }

  /// Plans the next attempt: when a quarter of what is left is left, so that attempts that fail come closer together.
  /// In the last second there is none: then the session ends, and the next login brings a new token.
  mutating func plan(now: Instant) {
    let left = left(now: now)
    guard end != .never, left > .seconds(1) else {
      next = .never
      return
    }
    next = now + (left - min(left / 4, Self.longestLead))
  }
}

extension Driver {
  /// The server said when the session ends; both times in Unix milliseconds, by its clock.
  func tokenLasts(until expires: UInt64, serverTime: UInt64, now: Instant) -> Duration? {
    // A time too far for a timer is none.
    guard expires > serverTime, expires - serverTime < 315_360_000_000 else {
      expiry = TokenExpiry()
      return nil
    }
    expiry = TokenExpiry(left: .milliseconds(Int64(expires - serverTime)), now: now)
    return Duration(expiry.left(now: now))
  }

  /// It is time for a new token: the application is told, and the provider asked.
  func tokenExpires(now: Instant) {
    let left = Duration(expiry.left(now: now))
    expiry.plan(now: now)
    if !expiry.isTold {
      expiry.isTold = true
      show(.tokenExpiring(in: left))
    }
    guard let provider = configuration.tokenProvider, !expiry.isRenewing else { return }
    expiry.isRenewing = true
    let attempt = attempt
    Task {
      let token = try? await provider()
      execute { driver in
        guard attempt == driver.attempt else { return }
        driver.expiry.isRenewing = false
        // Without one, the next attempt is planned already.
        if let token { driver.renew(token) { _ in } }
      }
    }
  }

  /// Has the session go on with this token; without a session the next login brings it.
  func renew(_ token: String, answer: @escaping @Sendable (Result<Void, SIMPError>) -> Void) {
    guard phase != .over else { return answer(.failure(SIMPError(.closed, "the connection is closed"))) }
    guard phase == .online, let session, session.isActive else {
      self.token = token
      isTokenFresh = true
      return answer(.success(()))
    }
    ask(.renew(token: token)) { [weak self] result in
      self?.execute { driver in driver.renewed(with: token, result, answer: answer) }
    }
  }

  private func renewed(
    with token: String, _ result: Result<SessionAnswer, SIMPError>,
    answer: @escaping @Sendable (Result<Void, SIMPError>) -> Void
  ) {
    switch result {
    case .success(.renewed(let expires, let serverTime)):
      self.token = token
      let lifetime = tokenLasts(until: expires, serverTime: serverTime, now: thread.loop.now)
      show(.tokenRenewed(lifetime: lifetime))
      markDirty()
      answer(.success(()))
    case .success: answer(.failure(SIMPError(.refused, "the server answered something else")))
    case .failure(let error): answer(.failure(error))
    }
  }

  /// Asks the server; the answer comes once, on the loop, also when the session ends before.
  func ask(_ request: SessionRequest, answer: @escaping @Sendable (Result<SessionAnswer, SIMPError>) -> Void) {
    guard phase == .online, let number = session?.ask(request) else {
      return answer(.failure(SIMPError(.connectionLost, "there is no session at present")))
    }
    // A number that came round again: nobody waits that long.
    asks.updateValue(answer, forKey: number)?(.failure(SIMPError(.timedOut, "no answer came")))
    markDirty()
  }

  func answered(_ number: UInt16, _ result: Result<SessionAnswer, Refusal>) {
    guard let answer = asks.removeValue(forKey: number) else { return }
    answer(result.mapError { SIMPError($0, request: true) })
  }
}

extension SIMPError {
  /// The server refused what it was asked for; the session lives.
  fileprivate init(_ refusal: Refusal, request: Bool) {
    let why = refusal.text.isEmpty ? refusal.code.words : refusal.text
    self.init(
      SIMPError(refusal, hadSession: true).code, "the server refuses it: \(why)",
      retryAfter: refusal.retryAfterMilliseconds > 0 ? .milliseconds(refusal.retryAfterMilliseconds) : nil)
  }
}
