internal import SimpCore

extension SIMPConnection {
  /// Has the session go on with a new token of the same user, in place: nothing is interrupted. Without a session at
  /// present, the next login brings it. `configuration.tokenProvider`, if there is one, does this by itself.
  ///
  /// - Throws: `tokenInvalid`, `tokenExpired`, `revoked`, or `forbidden` for a token of another user: the session goes on
  ///   with the token it had. `unavailable` for too many renewals; `connectionLost`; `closed`; `timedOut`; `cancelled`.
  public func renew(token: String) async throws(SIMPError) {
    guard (1...WireLimits.maximumTokenBytes).contains(token.utf8.count) else {
      throw SIMPError(.tokenInvalid, "a token has 1 to \(WireLimits.maximumTokenBytes) bytes")
    }
    let answer = Watched<Result<Void, SIMPError>?>(nil)
    driver.execute { $0.renew(token) { result in answer.update { $0 = result } } }
    try await answer.wait(timeout: .seconds(30)) { $0 }.result("for the answer").get()
  }

  /// What came of `kick`.
  public struct Kick: Hashable, Sendable {
    /// Tokens of the user that were issued up to then are refused from now on; Unix seconds.
    public let issuedUntil: UInt64
    /// The server's store knows it. If not, the server that was asked remembers it until it stops, and tells the store
    /// as soon as that is back.
    public let isStored: Bool
  }

  /// Sends a user away: ends all sessions of the user, and has tokens that were issued up to now refused.
  ///
  /// - Parameter reason: for the user, at most 256 bytes; may be empty.
  /// - Throws: `forbidden` unless this connection's token is an administrator's; `invalidName`, `invalidText`;
  ///   `connectionLost`, `timedOut`: it may have been done; `cancelled`.
  public func kick(_ user: String, reason: String = "") async throws(SIMPError) -> Kick {
    guard Text.isUserName(user) else {
      throw SIMPError(.invalidName, "'\(user)' is not a user name: 1 to 64 of A-Z a-z 0-9 . _ @ -")
    }
    guard reason.utf8.count <= SessionRequest.maximumReasonBytes, !reason.utf8.contains(0) else {
      throw SIMPError(.invalidText, "a reason has at most \(SessionRequest.maximumReasonBytes) bytes, and no U+0000")
    }
    guard case .kicked(let until, let isStored) = try await ask(.kick(user: user, reason: reason)) else {
      throw SIMPError(.refused, "the server answered something else")
    }
    return Kick(issuedUntil: until / 1000, isStored: isStored)
  }

  /// What the server counts since its start: value by name.
  ///
  /// - Throws: as `kick`.
  public func serverCounters() async throws(SIMPError) -> [(name: String, value: UInt64)] {
    guard case .counters(let counters) = try await ask(.counters) else {
      throw SIMPError(.refused, "the server answered something else")
    }
    return counters.map { ($0.name, $0.value) }
  }

  private func ask(_ request: SessionRequest) async throws(SIMPError) -> SessionAnswer {
    let answer = Watched<Result<SessionAnswer, SIMPError>?>(nil)
    driver.execute { $0.ask(request) { result in answer.update { $0 = result } } }
    return try await answer.wait(timeout: .seconds(30)) { $0 }.result("for the answer").get()
  }
}
