import Testing

@testable import SimpCore
@testable import SimpServer

/// Tokens that end and are renewed, and what administrators may do: the server's decisions.
@Suite struct SessionRequestTests {
  let rig = RequestRig()

  /// Of two logins at once the newer may be told of before the older was answered.
  @Test func aLoginThatWasOvertakenIsNowhere() {
    let newer = Location(address: SessionAddress(reactor: 1, session: 99), epoch: 1 << 40)
    rig.ports[0].board.receive(.entered(user: "bob", newer), now: rig.now)
    let bob = rig.connect("bob")
    #expect(bob.end == .replaced)
    #expect(rig.ports[0].endpoints.isEmpty && rig.ports[1].endpoints.isEmpty)
    #expect(rig.ports[0].board.location(of: "bob") == newer)
    #expect(rig.ports[1].board.location(of: "bob") == nil)
  }

  // MARK: - The end of a token

  @Test func aSessionEndsWithItsToken() {
    let bob = rig.connect("bob ends=\(rig.wallClock + 60)")
    rig.pass(.milliseconds(59_999))
    #expect(bob.end == nil)
    #expect(bob.entry.session.deadline(now: rig.now) <= rig.now + .milliseconds(1))
    rig.pass(.milliseconds(1))
    #expect(bob.end == .tokenExpired)
    #expect(rig.connect("bob ends=\(rig.wallClock)").end == .tokenExpired)
  }

  @Test func theLoginTellsTheEnd() throws {
    let ends = rig.wallClock + 60
    let bob = rig.connect("bob ends=\(ends)")
    let reply = try #require(bob.packets().first)
    #expect(try LoginReply(reading: reply.payload.span).tokenExpires == ends * 1000)
  }

  @Test func aRenewalPutsTheEndOff() {
    let bob = rig.connect("bob ends=\(rig.wallClock + 60)")
    let epoch = bob.entry.session.epoch
    rig.pass(.seconds(30))
    let ends = rig.wallClock + 50
    let answer = bob.ask(.renew(token: "bob ends=\(ends)"))
    #expect(answer == .success(.renewed(expires: ends * 1000, serverTime: rig.wallClock * 1000)))
    rig.pass(.seconds(49))
    #expect(bob.end == nil && bob.entry.session.epoch == epoch, "the same session")
    rig.pass(.seconds(1))
    #expect(bob.end == .tokenExpired)
  }

  @Test func anotherUsersTokenDoesNotRenew() {
    let bob = rig.connect("bob ends=\(rig.wallClock + 60)")
    for (token, code) in [
      ("alice", ErrorCode.forbidden), ("", .tokenInvalid), ("bob ends=5", .tokenExpired), ("Bob", .forbidden),
    ] {
      guard case .failure(let refusal)? = bob.ask(.renew(token: token)) else {
        Issue.record("\(token) renews")
        continue
      }
      #expect(refusal.code == code, "\(token)")
    }
    #expect(bob.end == nil && bob.entry.session.user == "bob")
    // What was refused changed nothing.
    rig.pass(.seconds(60))
    #expect(bob.end == .tokenExpired)
  }

  @Test func renewalsAreBounded() {
    let bob = rig.connect("bob")
    var refused = 0
    for _ in 0..<20 {
      if case .failure(let refusal)? = bob.ask(.renew(token: "bob")), refusal.code == .unavailable { refused += 1 }
    }
    #expect(refused == 20 - SessionEntry.renewalBurst && bob.end == nil)
    rig.pass(.seconds(2))
    #expect(bob.ask(.renew(token: "bob")) == .success(.renewed(expires: 0, serverTime: rig.wallClock * 1000)))
  }

  @Test func aRenewalBeforeTheLoginIsNone() {
    let client = RigClient(rig: rig, ports: rig.ports[0])
    guard case .failure(let refusal)? = client.ask(.renew(token: "bob")) else {
      Issue.record("renewed before the login")
      return
    }
    #expect(refusal.code == .notLoggedIn)
  }

  // MARK: - Administrators

  @Test func onlyAnAdministratorMayAsk() {
    let alice = rig.connect("alice")
    let bob = rig.connect("bob")
    for request: SessionRequest in [.kick(user: "bob", reason: ""), .kick(user: "alice", reason: ""), .counters] {
      guard case .failure(let refusal)? = alice.ask(request) else {
        Issue.record("\(request) is granted")
        continue
      }
      #expect(refusal.code == .forbidden)
    }
    #expect(alice.end == nil && bob.end == nil && rig.stored.isEmpty)
    // A right is the token's: it comes with one and goes with the next.
    #expect(alice.ask(.renew(token: "alice admin")) != nil)
    #expect((try? alice.ask(.counters)?.get()) != nil)
    #expect(alice.ask(.renew(token: "alice")) != nil)
    #expect((try? alice.ask(.counters)?.get()) == nil)
  }

  @Test func aKickEndsAllSessionsOnAllReactors() {
    let root = rig.connect("root admin")
    let sessions = [
      rig.connect("bob", reactor: 0), rig.connect("bob", reactor: 0, sendOnly: true),
      rig.connect("bob", reactor: 1, sendOnly: true), rig.connect("bob", reactor: 1, sendOnly: true),
    ]
    let alice = rig.connect("alice", reactor: 1)
    let until = rig.wallClock + 5
    #expect(
      root.ask(.kick(user: "bob", reason: "stolen")) == .success(.kicked(issuedUntil: until * 1000, isStored: true)))
    #expect(sessions.map(\.end) == [.tokenRevoked, .tokenRevoked, .tokenRevoked, .tokenRevoked])
    #expect(alice.end == nil && root.end == nil && rig.stored == ["bob": until])
  }

  @Test(arguments: [true, false])
  func whoWasSentAwayComesBackWithALaterTokenOnly(isStoreUp: Bool) {
    rig.isStoreUp = isStoreUp
    let root = rig.connect("root admin")
    let kicked = rig.wallClock
    #expect(
      root.ask(.kick(user: "bob", reason: ""))
        == .success(.kicked(issuedUntil: (kicked + 5) * 1000, isStored: isStoreUp)))
    rig.pass(.seconds(60))
    for reactor in 0..<2 {
      for token in ["bob issued=\(kicked - 1)", "bob issued=\(kicked)", "bob issued=\(kicked + 5)", "bob undated"] {
        #expect(rig.connect(token, reactor: reactor).end == .tokenRevoked, "\(token)")
      }
      let later = rig.connect("bob issued=\(kicked + 6)", reactor: reactor)
      #expect(later.end == nil)
      // The old token does not get in by a renewal either.
      guard case .failure(let refusal)? = later.ask(.renew(token: "bob issued=\(kicked)")) else {
        Issue.record("renewed with a token from before")
        continue
      }
      #expect(refusal.code == .tokenRevoked && later.end == nil)
    }
  }

  @Test func theStoreTellsAServerThatDoesNotKnow() {
    rig.stored["bob"] = rig.wallClock
    #expect(rig.connect("bob issued=\(rig.wallClock)").end == .tokenRevoked)
    #expect(rig.connect("bob issued=\(rig.wallClock + 1)").end == nil)
    // And what the server knows it tells a store that comes back empty.
    rig.stored = [:]
    rig.ports[0].board.rewriteRevocations()
    #expect(rig.stored == ["bob": rig.wallClock])
  }

  @Test func revocationsAreBoundedAndEnd() {
    var revocations = Revocations()
    for number in 0...Revocations.maximumUsers { revocations.insert("user\(number)", until: UInt64(1000 + number)) }
    #expect(revocations.until.count == Revocations.maximumUsers && revocations.until["user0"] == nil)
    var claims = TokenClaims(user: "user1")
    claims.issued = 1001
    let holds = revocations.refuses(claims, wallClockSeconds: 1001 + Revocations.lifetimeSeconds - 1)
    let isOver = !revocations.refuses(claims, wallClockSeconds: 1001 + Revocations.lifetimeSeconds)
    #expect(holds && isOver)
    #expect(revocations.until["user1"] == nil, "it goes when it is looked at")
  }

  @Test func countersAreToldByName() throws {
    let root = rig.connect("root admin")
    guard case .counters(let counters)? = try root.ask(.counters)?.get() else {
      Issue.record("no counters")
      return
    }
    #expect(counters.map(\.name) == counters.map(\.name).sorted())
    #expect(counters.first { $0.name == "simp_logins_total" }?.value == 1)
  }

  @Test func badRequestsAreRefusedAndTheSessionLives() throws {
    let root = rig.connect("root admin")
    for (request, code) in [
      (SessionRequest.kick(user: "b b", reason: ""), ErrorCode.nameInvalid),
      (.kick(user: "", reason: ""), .nameInvalid),
      (.kick(user: "bob", reason: String(repeating: "r", count: 257)), .tooLarge),
      (.kick(user: "bob", reason: "a\u{0}"), .textInvalid),
      (.renew(token: String(repeating: "t", count: 3073)), .tooLarge),
    ] {
      guard case .failure(let refusal)? = root.ask(request) else {
        Issue.record("\(request) is granted")
        continue
      }
      #expect(refusal.code == code && root.end == nil)
    }
  }
}
