import SimpIO
import SimpServer
import SimpToken
import Testing

@testable import SimpConnection

/// Tokens that end while a session goes on, and administrators, against a real server.
@Suite(.timeLimit(.minutes(5)))
struct SDKTokenTests {
  /// Without leeway: tokens of a few seconds end when they say.
  private func withServer<Value>(reactors: Int = 1, _ body: (SDKServer) async throws -> Value) async throws -> Value {
    let server = try await SDKServer.start { configuration in
      configuration.leeway = .zero
      configuration.reactors = reactors
    }
    do {
      let value = try await body(server)
      await server.stop()
      return value
    } catch {
      await server.stop()
      throw error
    }
  }

  private func token(
    _ server: SDKServer, _ user: String, lasting seconds: UInt64, isAdmin: Bool = false
  ) throws -> String {
    var grant = TokenGrant(user: user, lifetimeSeconds: seconds)
    grant.isAdmin = isAdmin
    return try Tokens.mint(grant, key: server.key, now: EventLoop.wallClockSeconds)
  }

  @Test func aProviderKeepsTheSessionGoing() async throws {
    try await withServer { server in
      let calls = Watched(0)
      let bob = try server.connection("bob") { configuration in
        configuration.tokenProvider = { [key = server.key] in
          let call = calls.update { calls in
            calls += 1
            return calls
          }
          return try Tokens.mint(
            user: "bob", key: key, ttlSeconds: call == 1 ? 24 : 600, now: EventLoop.wallClockSeconds)
        }
      }
      let states = bob.states
      try await bob.connected()
      let alice = try server.connection("alice")
      try await alice.connected()
      let before = try alice.post("before", to: "bob")
      let seen = await bob.wait(for: states) { $0.isRenewed || $0.isClosed }
      #expect(seen.contains { if case .tokenExpiring = $0 { true } else { false } }, "\(seen)")
      guard case .tokenRenewed(let lifetime?)? = seen.last else {
        Issue.record("\(seen)")
        return
      }
      #expect(lifetime > .seconds(300) && calls.read { $0 } == 2)
      let after = try alice.post("after", to: "bob")
      #expect(try await bob.take(2).map(\.text) == ["before", "after"])
      for receipt in [before, after] { try await receipt.reached(.delivered) }
      #expect(bob.statistics.logins == 1, "nothing was interrupted")
      await bob.close()
      await alice.close()
    }
  }

  @Test func withoutAnotherTokenTheConnectionEnds() async throws {
    try await withServer { server in
      let bob = try server.connection(token: token(server, "bob", lasting: 20))
      let states = bob.states
      try await bob.connected()
      let seen = await bob.wait(for: states) { $0.isClosed }
      guard case .closed(let error?)? = seen.last else {
        Issue.record("\(seen)")
        return
      }
      #expect(error.code == .tokenExpired && error.message.contains("token"))
      #expect(seen.contains { if case .tokenExpiring = $0 { true } else { false } }, "told before: \(seen)")
      #expect(await code { try await bob.send("late", to: "alice") } == .tokenExpired)
    }
  }

  @Test func afterTheEndTheProviderIsAskedAgainAndNothingIsLost() async throws {
    try await withServer { server in
      // While the session lives there is no new token to be had.
      let mayRenew = Watched(false)
      let first = try token(server, "bob", lasting: 20)
      let isFirst = Watched(true)
      let bob = try server.connection("bob") { configuration in
        configuration.tokenProvider = { [key = server.key] in
          let wasFirst = isFirst.update { isFirst in
            defer { isFirst = false }
            return isFirst
          }
          if wasFirst { return first }
          guard mayRenew.read({ $0 }) else { throw SIMPError(.unavailable, "the issuer is away") }
          return try Tokens.mint(user: "bob", key: key, ttlSeconds: 600, now: EventLoop.wallClockSeconds)
        }
      }
      let states = bob.states
      try await bob.connected()
      let alice = try server.connection("alice")
      try await alice.connected()
      let sent = try (1...20).map { try alice.post("\($0)", to: "bob") }
      await bob.wait(for: states) { $0.isReconnecting }
      let more = try (21...40).map { try alice.post("\($0)", to: "bob") }
      mayRenew.update { $0 = true }
      await bob.wait(for: states) { $0.isConnected }
      #expect(try await bob.take(40).map(\.text) == (1...40).map { "\($0)" })
      for receipt in sent + more { try await receipt.reached(.delivered) }
      #expect(bob.statistics.logins == 2)
      await bob.close()
      await alice.close()
    }
  }

  @Test func aTokenIsRenewedByHand() async throws {
    try await withServer { server in
      let bob = try server.connection(token: token(server, "bob", lasting: 600))
      let states = bob.states
      try await bob.connected()
      #expect(await code { try await bob.renew(token: try token(server, "alice", lasting: 600)) } == .forbidden)
      #expect(await code { try await bob.renew(token: "not.a.token") } == .tokenInvalid)
      #expect(await code { try await bob.renew(token: "") } == .tokenInvalid)
      try await bob.renew(token: token(server, "bob", lasting: 3600))
      let seen = await bob.wait(for: states) { $0.isRenewed }
      guard case .tokenRenewed(let lifetime?)? = seen.last else {
        Issue.record("\(seen)")
        return
      }
      #expect(lifetime > .seconds(3000) && bob.statistics.logins == 1)
      await bob.close()
      #expect(await code { try await bob.renew(token: "t") } == .closed)
    }
  }

  @Test func aKickEndsAUsersSessionsForGood() async throws {
    try await withServer(reactors: 2) { server in
      // Tokens of now: those who come after the kick need later ones.
      let old = try token(server, "bob", lasting: 600)
      let bobs = try (0..<6).map { _ in try server.connection(token: old) { $0.isSendOnly = true } }
      for bob in bobs { try await bob.connected() }
      let alice = try server.connection("alice")
      try await alice.connected()
      #expect(await code { _ = try await alice.kick("bob") } == .forbidden)
      #expect(await code { _ = try await alice.serverCounters() } == .forbidden)
      let root = try server.connection(token: token(server, "root", lasting: 600, isAdmin: true))
      try await root.connected()
      let kick = try await root.kick("bob", reason: "the token was stolen")
      #expect(kick.isStored)
      for bob in bobs {
        let last = await bob.wait { $0.isClosed }.last
        guard case .closed(let error?)? = last else {
          Issue.record("\(String(describing: last))")
          continue
        }
        #expect(error.code == .revoked && error.message.contains("the token was stolen"))
      }
      let again = try server.connection(token: old)
      #expect(await code { try await again.connected() } == .revoked)
      while EventLoop.wallClockSeconds <= kick.issuedUntil { try await Task.sleep(for: .milliseconds(20)) }
      let fresh = try server.connection(token: token(server, "bob", lasting: 600))
      try await fresh.connected()
      let counters = try await root.serverCounters()
      #expect(counters.first { $0.name == "simp_kicks_total" }?.value == 1)
      #expect(alice.statistics.logins == 1)
      for each in [alice, root, fresh] { await each.close() }
    }
  }
}

extension SIMPState {
  fileprivate var isRenewed: Bool { if case .tokenRenewed = self { true } else { false } }
}
