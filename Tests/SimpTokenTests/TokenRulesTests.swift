import Testing

@testable import SimpToken

@Suite struct TokenRulesTests {
  let key = TokenKey(secret: [UInt8](repeating: 0x5A, count: 32), name: "k")
  let now: UInt64 = 1_800_000_000

  private func refusal(
    _ claims: String, now: UInt64? = nil, _ configure: (inout TokenRules) -> Void = { _ in }
  ) -> TokenError.Code? {
    var rules = TokenRules()
    configure(&rules)
    let token = Forge.hmac(
      header: #"{"alg":"HS256","kid":"k"}"#, claims: Array(claims.utf8), secret: key.checking.copy)
    return code { _ = try Tokens.check(token, keys: KeySet(key), rules: rules, now: now ?? self.now) }
  }

  @Test func leewayIsForBothEnds() {
    let ended = #"{"sub":"bob","exp":1799999999}"#
    #expect(refusal(ended) == .expired)
    #expect(refusal(ended) { $0.leewaySeconds = 1 } == .expired, "at exp and its leeway it is over")
    #expect(refusal(ended) { $0.leewaySeconds = 2 } == nil)
    for claim in ["nbf", "iat"] {
      let early = #"{"sub":"bob","exp":1800000060,"\#(claim)":1800000002}"#
      #expect(refusal(early) == .notYetValid)
      #expect(refusal(early) { $0.leewaySeconds = 1 } == .notYetValid)
      #expect(refusal(early) { $0.leewaySeconds = 2 } == nil)
    }
    #expect(refusal(#"{"sub":"bob","exp":9223372036854775807}"#, now: .max) { $0.leewaySeconds = 300 } == .expired)
  }

  @Test func anAudienceThatIsAskedForHasToBeThere() {
    let ours = #"{"sub":"bob","exp":1800000060,"aud":"chat.example"}"#
    #expect(refusal(ours) == .otherAudience)
    #expect(refusal(ours) { $0.audience = "chat.example" } == nil)
    for claims in [
      #"{"sub":"bob","exp":1800000060}"#, #"{"sub":"bob","exp":1800000060,"aud":"simp"}"#,
      #"{"sub":"bob","exp":1800000060,"aud":["chat.example2"]}"#, #"{"sub":"bob","exp":1800000060,"aud":"chat"}"#,
    ] {
      #expect(refusal(claims) { $0.audience = "chat.example" } == .otherAudience, "\(claims)")
    }
    #expect(
      refusal(#"{"sub":"bob","exp":1800000060,"aud":["x","chat.example"]}"#) { $0.audience = "chat.example" } == nil)
  }

  @Test func anIssuerThatIsAskedForHasToBeThere() {
    let ours = #"{"sub":"bob","exp":1800000060,"iss":"https://id.example"}"#
    #expect(refusal(ours) == nil)
    #expect(refusal(ours) { $0.issuer = "https://id.example" } == nil)
    for claims in [
      #"{"sub":"bob","exp":1800000060}"#, #"{"sub":"bob","exp":1800000060,"iss":"https://id.example.org"}"#,
      #"{"sub":"bob","exp":1800000060,"iss":["https://id.example"]}"#, #"{"sub":"bob","exp":1800000060,"iss":null}"#,
    ] {
      #expect(refusal(claims) { $0.issuer = "https://id.example" } == .otherIssuer, "\(claims)")
    }
  }

  @Test func onlyTheOneClaimMakesAnAdministrator() throws {
    for (claim, isAdmin) in [
      (#""simp":"admin""#, true), (#""simp":"Admin""#, false), (#""simp":true"#, false), (#""simp":["admin"]"#, false),
      (#""admin":true"#, false), (#""role":"admin""#, false),
    ] {
      let token = Forge.hmac(
        header: #"{"alg":"HS256"}"#, claims: Array(#"{"sub":"bob","exp":1800000060,\#(claim)}"#.utf8),
        secret: key.checking.copy)
      #expect(try Tokens.check(token, key: key, now: now).isAdmin == isAdmin, "\(claim)")
    }
  }

  @Test func whatIsGrantedIsInTheToken() throws {
    var grant = TokenGrant(user: "bob", lifetimeSeconds: 60)
    grant.notBefore = now + 100
    grant.audience = "chat.example"
    grant.issuer = "https://id.example"
    let token = try Tokens.mint(grant, key: key, now: now)
    let parts = try TokenParts(token)
    #expect(parts.algorithm == "HS256" && parts.keyName == "k")
    #expect(
      parts.claims == [
        "sub": .string("bob"), "iat": .integer(1_800_000_000), "nbf": .integer(1_800_000_100),
        "exp": .integer(1_800_000_160), "aud": .string("chat.example"), "iss": .string("https://id.example"),
      ])
    grant.issuer = "cut\u{0}here"
    #expect(code { _ = try Tokens.mint(grant, key: key, now: now) } == .malformed)
    grant.issuer = String(repeating: "x", count: 3000)
    #expect(code { _ = try Tokens.mint(grant, key: key, now: now) } == .malformed)
  }
}
