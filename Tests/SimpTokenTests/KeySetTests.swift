internal import CSimpKeys
import Glibc
import Testing

@testable import SimpToken

@Suite struct KeySetTests {
  let rig: KeyRig
  let now: UInt64 = 1_800_000_000
  private let secret = "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE"  // 32 times "a"

  init() throws { rig = try KeyRig() }

  @Test func aSetOfThreeKindsIsReadAndEachKeyChecksItsOwn() throws {
    for algorithm in TokenAlgorithm.allCases { _ = try rig.make(algorithm) }
    let set = try KeySet.load(path: rig.path)
    #expect(set.keys.map(\.name) == ["hs256-1", "rs256-1", "es256-1"])
    #expect(set.keys.map(\.algorithm) == [.hs256, .rs256, .es256])
    for key in set.keys {
      let token = try Tokens.mint(user: "bob", key: key, ttlSeconds: 60, now: now)
      #expect(try Tokens.check(token, keys: set, now: now).user == "bob")
    }
    #expect(rig.mode == 0o600)
  }

  @Test func theKeyIsFoundByItsExactName() throws {
    rig.write(#"{"keys":[\#(oct("one", secret)),\#(oct("two", secret))]}"#)
    let set = try KeySet.load(path: rig.path)
    let bytes = [UInt8](repeating: 0x61, count: 32)
    func refusal(_ header: String) -> TokenError.Code? {
      let token = Forge.hmac(header: header, claims: Array(#"{"sub":"bob","exp":1800000060}"#.utf8), secret: bytes)
      return code { _ = try Tokens.check(token, keys: set, now: now) }
    }
    #expect(refusal(#"{"alg":"HS256","kid":"one"}"#) == nil)
    #expect(refusal(#"{"alg":"HS256","kid":"two"}"#) == nil)
    for name in ["One", "on", "one ", "ones", "", "../one", "one\\u0000", "0"] {
      #expect(refusal(#"{"alg":"HS256","kid":"\#(name)"}"#) == .unknownKey, "\(name)")
    }
    // Without a name only a set of one key is clear.
    #expect(refusal(#"{"alg":"HS256"}"#) == .unknownKey)
    rig.write(oct("one", secret))
    let token = Forge.hmac(
      header: #"{"alg":"HS256"}"#, claims: Array(#"{"sub":"bob","exp":1800000060}"#.utf8), secret: bytes)
    #expect(try Tokens.check(token, keys: KeySet.load(path: rig.path), now: now).user == "bob")
  }

  /// RFC 7517, appendix A.1 and A.2, with the RSA key of A.1.
  @Test func keysOfOthersAreRead() throws {
    rig.write(
      """
      {"keys": [
        {"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
         "y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM","use":"sig","kid":"1"},
        {"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
         "e":"AQAB","alg":"RS256","kid":"2011-04-29","x5t":"unknown members do not matter","key_ops":["verify"]}
      ], "more": {"of": [1.5, "this"]}}
      """, mode: 0o644)
    let set = try KeySet.load(path: rig.path)
    #expect(set.keys.map(\.name) == ["1", "2011-04-29"] && set.keys.map(\.algorithm) == [.es256, .rs256])
    #expect(set.keys.allSatisfy { !$0.canSign } && set.passedOver.isEmpty)
    #expect(code { _ = try TokenKey.load(path: rig.path) } == .badKey)
  }

  @Test func keysForSomethingElseArePassedOver() throws {
    rig.write(
      """
      {"keys":[\(oct("good", secret)),
        {"kty":"OKP","crv":"Ed25519","x":"AAAA","kid":"a"}, {"kty":"EC","crv":"P-384","kid":"b"},
        {"kty":"RSA","use":"enc","alg":"RSA-OAEP","kid":"c"}, {"kty":"RSA","alg":"PS256","kid":"d"},
        {"kty":"oct","alg":"HS512","k":"\(secret)","kid":"e"}, {"kty":7}, {}]}
      """)
    let set = try KeySet.load(path: rig.path)
    #expect(set.keys.map(\.name) == ["good"] && set.passedOver.count == 7)
  }

  static let broken: [(String, String)] = [
    ("{}", "keys"), (#"{"keys":{}}"#, "keys"), (#"{"keys":[]}"#, "no key"), (#"{"keys":[7]}"#, "no JSON object"),
    ("{", "not JSON"), (#"{"keys":[],"keys":[]}"#, "twice"),
    (#"{"keys":[{"kty":"oct","k":"YWFh"}]}"#, "3 bytes"),
    (#"{"keys":[{"kty":"oct","kid":"a"}]}"#, "k is missing"),
    (#"{"keys":[{"kty":"oct","k":"YW+/"}]}"#, "k is missing or broken"),
    (#"{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}"#, "2048"),
    (#"{"keys":[{"kty":"RSA","e":"AQAB"}]}"#, "broken"),
    (#"{"keys":[{"kty":"RSA","n":7,"e":"AQAB"}]}"#, "n is no number"),
    (#"{"keys":[{"kty":"RSA","alg":"HS256","n":"AQAB","e":"AQAB"}]}"#, "cannot be for HS256"),
    (
      #"{"keys":[{"kty":"oct","alg":"RS256","k":"YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE"}]}"#,
      "cannot be for RS256"
    ),
    (#"{"keys":[{"kty":"EC","crv":"P-256","x":"AQAB","y":"AQAB"}]}"#, "broken"),
    // A point that is not on the curve.
    (
      #"{"keys":[{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyN"}]}"#,
      "y is no number"
    ),
    (
      #"{"keys":[{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyQ"}]}"#,
      "broken"
    ),
  ]

  @Test(arguments: broken)
  func brokenSetsAreRefusedAndSayWhy(text: String, word: String) throws {
    rig.write(text)
    let error = try #require(throws: TokenError.self) { try KeySet.load(path: rig.path) }
    #expect(error.code == .badKey && error.description.contains(word), "\(error)")
  }

  @Test func namesThatDoNotTellKeysApart() throws {
    let nameless = #"{"kty":"oct","k":"\#(secret)"}"#
    for (keys, word) in [
      ("\(oct("a", secret)),\(oct("a", secret))", "same kid"), ("\(oct("a", secret)),\(nameless)", "needs a kid"),
      (#"{"kty":"oct","k":"\#(secret)","kid":7}"#, "kid is a text"),
      (#"{"kty":"oct","k":"\#(secret)","kid":""}"#, "kid is a text"),
      (oct(String(repeating: "k", count: 129), secret), "kid"),
    ] {
      rig.write(#"{"keys":[\#(keys)]}"#)
      let error = try #require(throws: TokenError.self) { try KeySet.load(path: rig.path) }
      #expect(error.description.contains(word), "\(error)")
    }
  }

  @Test func weakRSAKeysAreRefused() throws {
    let numbers = try KeyNumbers()
    try #require(unsafe simp_key_rsa_generate(1024, numbers.handle) == 1)
    func number(_ name: String) throws -> String { Forge.base64url(try #require(numbers[name])) }
    rig.write(#"{"kty":"RSA","n":"\#(try number("n"))","e":"\#(try number("e"))"}"#)
    let error = try #require(throws: TokenError.self) { try KeySet.load(path: rig.path) }
    #expect(error.description.contains("2048"))
  }

  @Test func halvesThatDoNotBelongTogetherAreRefused() throws {
    let one = try KeyNumbers()
    let two = try KeyNumbers()
    try #require(unsafe simp_key_p256_generate(one.handle) == 1 && simp_key_p256_generate(two.handle) == 1)
    func key(_ open: KeyNumbers, _ secret: KeyNumbers) throws -> String {
      let (x, y, d) = try (#require(open["x"]), #require(open["y"]), #require(secret["d"]))
      return
        #"{"kty":"EC","crv":"P-256","x":"\#(Forge.base64url(x))","y":"\#(Forge.base64url(y))","d":"\#(Forge.base64url(d))"}"#
    }
    rig.write(try key(one, one))
    #expect(try KeySet.load(path: rig.path).keys.first?.canSign == true)
    rig.write(try key(one, two))
    #expect(code { _ = try KeySet.load(path: rig.path) } == .badKey)
  }

  @Test func modes() throws {
    rig.write(oct("a", secret), mode: 0o644)
    #expect(try #require(throws: TokenError.self) { try KeySet.load(path: rig.path) }.description.contains("chmod 600"))
    // A public key may be read by all, and written by nobody else.
    let open =
      #"{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}"#
    rig.write(open, mode: 0o644)
    #expect(try KeySet.load(path: rig.path).keys.count == 1)
    rig.write(open, mode: 0o664)
    #expect(
      try #require(throws: TokenError.self) { try KeySet.load(path: rig.path) }.description.contains("put keys in"))
  }

  // MARK: - Making

  @Test func keysAreAddedAndNoneIsOverwrittenUntold() throws {
    let first = try KeyMaker.add(.hs256, name: "a", path: rig.path, replaces: false)
    #expect(first.isNewFile && first.count == 1)
    let second = try KeyMaker.add(.es256, name: "b \"quoted\" ü", path: rig.path, replaces: false)
    #expect(!second.isNewFile && second.count == 2)
    let before = rig.text
    #expect(code { _ = try KeyMaker.add(.rs256, name: "a", path: rig.path, replaces: false) } == .keyExists)
    #expect(rig.text == before)
    let token = try Tokens.mint(user: "bob", key: first.key, ttlSeconds: 60, now: now)
    #expect(try Tokens.check(token, keys: KeySet.load(path: rig.path), now: now).user == "bob")
    _ = try KeyMaker.add(.hs256, name: "a", path: rig.path, replaces: true)
    let set = try KeySet.load(path: rig.path)
    #expect(set.keys.map(\.name) == ["b \"quoted\" ü", "a"])
    #expect(code { _ = try Tokens.check(token, keys: set, now: now) } == .badSignature)
    #expect(try TokenKey.load(path: rig.path, name: "a").algorithm == .hs256)
    #expect(try TokenKey.load(path: rig.path).name == "a", "the one that came last")
    #expect(code { _ = try TokenKey.load(path: rig.path, name: "c") } == .badKey)
  }

  @Test func whatElseStandsInASetStays() throws {
    rig.write(#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"x","x":"AA","n":1.50}],"note":["ü\n",null,true]}"#)
    #expect(
      code { _ = try KeyMaker.add(.hs256, name: "a", path: rig.path, replaces: false) } == .badKey, "no key of ours")
    rig.write(#"{"keys":[\#(oct("o", secret)),{"kty":"OKP","kid":"x","n":1.50}],"note":["ü\n",null,true,-7]}"#)
    _ = try KeyMaker.add(.hs256, name: "a", path: rig.path, replaces: false)
    let top = try #require(JSON(Array(rig.text.utf8))?.object)
    #expect(top["note"] == .array([.string("ü\n"), .null, .bool(true), .integer(-7)]))
    #expect(top["keys"]?.array?[1].object?["n"] == .number("1.50"))
  }

  @Test func filesThatAreNoSetAreLeftAlone() throws {
    for text in ["hello", String(repeating: "ab", count: 32), oct("a", secret), "{"] {
      rig.write(text)
      #expect(code { _ = try KeyMaker.add(.hs256, name: "b", path: rig.path, replaces: true) } == .badKey)
      #expect(rig.text == text)
    }
    for name in ["", "a\nb", String(repeating: "k", count: 129)] {
      #expect(code { _ = try KeyMaker.add(.hs256, name: name, path: rig.path + "x", replaces: false) } == .badKey)
    }
    #expect(
      code { _ = try KeyMaker.add(.hs256, name: "a", path: rig.directory + "/no/keys", replaces: false) } == .badKey)
  }

  private func oct(_ name: String, _ secret: String) -> String { #"{"kty":"oct","k":"\#(secret)","kid":"\#(name)"}"# }
}
