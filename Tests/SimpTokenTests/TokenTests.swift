import Testing

@testable import SimpToken

@Suite struct TokenTests {
  let key = TokenKey(secret: [UInt8](repeating: 0x5A, count: 32))
  let other = TokenKey(secret: [UInt8](repeating: 0x5B, count: 32))
  let now: UInt64 = 1_800_000_000

  @Test func mintedTokensPass() throws {
    for user in ["a", "bob", "A.b_c@d-e", String(repeating: "x", count: 64)] {
      let token = try Tokens.mint(user: user, key: key, ttlSeconds: 60, now: now)
      let claims = try Tokens.check(token, key: key, now: now)
      #expect(claims == Tokens.Claims(user: user, expires: now + 60, issued: now))
    }
  }

  @Test func tokenEndsAtItsSecond() throws {
    let token = try Tokens.mint(user: "bob", key: key, ttlSeconds: 60, now: now)
    #expect(try Tokens.check(token, key: key, now: now + 59).user == "bob")
    #expect(refusal(of: token, now: now + 60) == .expired)
    #expect(refusal(of: token, now: now + 61) == .expired)
  }

  @Test func anotherKeysTokenIsRefused() throws {
    let token = try Tokens.mint(user: "bob", key: other, ttlSeconds: 60, now: now)
    #expect(refusal(of: token) == .badSignature)
  }

  @Test func everyCutTokenIsRefused() throws {
    let token = try Tokens.mint(user: "bob", key: key, ttlSeconds: 60, now: now)
    for length in 0..<token.utf8.count {
      #expect(refusal(of: String(token.prefix(length))) != nil, "cut to \(length) bytes")
    }
  }

  @Test func everyChangedByteIsRefused() throws {
    let token = try Tokens.mint(user: "bob", key: key, ttlSeconds: 60, now: now)
    for index in token.indices {
      var changed = token
      changed.replaceSubrange(index...index, with: token[index] == "A" ? "B" : "A")
      #expect(refusal(of: changed) != nil, "byte \(token.utf8.distance(from: token.startIndex, to: index))")
    }
  }

  @Test(arguments: ["", "b b", "bob\n", "bob}", "ü", "a/b", String(repeating: "x", count: 65)])
  func badNamesAreNotMinted(user: String) {
    #expect(throws: TokenError.self) { try Tokens.mint(user: user, key: key, ttlSeconds: 60, now: now) }
    #expect(!Tokens.isValidUser(user))
  }

  @Test func lifetimesThatAreNoneAreNotMinted() {
    #expect(throws: TokenError.self) { try Tokens.mint(user: "bob", key: key, ttlSeconds: 0, now: now) }
    #expect(throws: TokenError.self) { try Tokens.mint(user: "bob", key: key, ttlSeconds: .max, now: now) }
    #expect(throws: TokenError.self) { try Tokens.mint(user: "bob", key: key, ttlSeconds: 1 << 63, now: now) }
  }

  @Test func keyTellsNothingOfItself() {
    #expect("\(key)" == "TokenKey")
    #expect(!String(reflecting: key).contains("90"))
  }

  private func refusal(of token: String, now: UInt64? = nil) -> TokenError.Code? {
    do throws(TokenError) {
      _ = try Tokens.check(token, key: key, now: now ?? self.now)
      return nil
    } catch {
      return error.code
    }
  }
}
