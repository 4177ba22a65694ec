internal import CJWT
import Glibc
import Testing

@testable import SimpToken

/// Tokens that an attacker, or a careless issuer, may bring. Those with a right signature are signed by libjwt from raw
/// JSON, so that only the claim under test is wrong.
@Suite struct ForgedTokens {
  let secret = [UInt8](repeating: 0x5A, count: 32)
  let now: UInt64 = 1_800_000_000

  @Test(arguments: ["none", "None", "NONE", "HS384", "HS512", "RS256", "ES256", "HS256 ", "", "hs1"])
  func headerNamesAnotherAlgorithm(algorithm: String) throws {
    // The signature is a right one of HS256 over another header: a check by the token's algorithm must not matter.
    let good = try Tokens.mint(user: "bob", key: TokenKey(secret: secret), ttlSeconds: 60, now: now)
    let parts = good.split(separator: ".")
    let header = base64url(#"{"alg":"\#(algorithm)","typ":"JWT"}"#)
    for signature in [String(parts[2]), "AA", ""] {
      #expect(refusal(of: "\(header).\(parts[1]).\(signature)") != nil, "\(algorithm), signature \(signature)")
    }
  }

  @Test(arguments: [JWT_ALG_HS384, JWT_ALG_HS512])
  func rightSignatureByAnotherAlgorithm(algorithm: jwt_alg_t) {
    let token = sign(#"{"sub":"bob","exp":1800000060}"#, algorithm: algorithm)
    #expect(refusal(of: token) == .badSignature)
  }

  @Test func unsignedTokenOfTheLibrary() {
    let token = sign(#"{"sub":"bob","exp":1800000060}"#, algorithm: JWT_ALG_NONE)
    #expect(refusal(of: token) == .malformed)
    #expect(refusal(of: token + "AA") == .badSignature)
  }

  @Test func embeddedKeysAreNotLookedAt() {
    // Signed with the attacker's secret, which the header brings along in every way there is.
    let attacker = [UInt8](repeating: 0x61, count: 32)
    let headers = [
      #"{"jwk":{"kty":"oct","k":"YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE"}}"#,
      #"{"jku":"https://attacker.example/keys.json"}"#,
      #"{"x5u":"https://attacker.example/cert.pem"}"#,
      #"{"x5c":["YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE="]}"#,
    ]
    for header in headers {
      let token = sign(#"{"sub":"bob","exp":1800000060}"#, header: header, secret: attacker)
      #expect(refusal(of: token) == .badSignature, "\(header)")
    }
  }

  @Test func noNameOfAKeyLeadsAnywhere() {
    // Signed with the only key there is: even so a name that is not its own is not passed over.
    for name in [
      "../../../../dev/null", "signing.key", "", "/etc/passwd", "' OR 1=1", String(repeating: "k", count: 900),
    ] {
      let token = sign(#"{"sub":"bob","exp":1800000060}"#, header: #"{"kid":"\#(name)"}"#)
      #expect(refusal(of: token) == .unknownKey, "\(name.prefix(40))")
    }
    for value in ["7", "null", #"["a"]"#, "true"] {
      let token = sign(#"{"sub":"bob","exp":1800000060}"#, header: #"{"kid":\#(value)}"#)
      #expect(refusal(of: token) == .malformed, "\(value)")
    }
  }

  @Test func whatStandsTwiceIsRefused() {
    // Readers differ in which of the two they take.
    for claims in [
      #"{"sub":"bob","sub":"alice","exp":1800000060}"#, #"{"sub":"bob","exp":1,"exp":1800000060}"#,
      #"{"sub":"bob","exp":1800000060,"\u0065xp":1800000060}"#,
    ] {
      #expect(refusal(of: signByHand(claims)) == .malformed, "\(claims)")
    }
    #expect(refusal(of: signByHand(#"{"sub":"bob","exp":1800000060}"#)) == nil)
    let header = #"{"alg":"none","alg":"HS256"}"#
    #expect(refusal(of: signByHand(#"{"sub":"bob","exp":1800000060}"#, header: header)) == .malformed)
  }

  @Test func whatIsNoJSONIsRefused() {
    for claims in [
      "", "null", "[]", "7", #""sub""#, "{", "{}x", #"{"sub":"bob","exp":1800000060,}"#, #"{'sub':'bob'}"#,
      #"{"sub":"bob","exp":01800000060}"#, #"{"sub":"bob","exp":+1800000060}"#, #"{"sub":"\ud800","exp":1800000060}"#,
      #"{"sub":"bob","exp":1800000060,"x":\#(String(repeating: "[", count: 900))\#(String(repeating: "]", count: 900))}"#,
    ] {
      #expect(refusal(of: signByHand(claims)) == .malformed, "\(claims.prefix(60))")
    }
    #expect(refusal(of: signByHand(bytes: [0x7B, 0x22, 0xFF, 0x22, 0x3A, 0x31, 0x7D])) == .malformed)
  }

  @Test func criticalHeadersAreRefused() {
    let token = sign(#"{"sub":"bob","exp":1800000060}"#, header: #"{"crit":["b64"],"b64":false}"#)
    #expect(refusal(of: token) == .malformed)
  }

  @Test func shapes() throws {
    let good = try Tokens.mint(user: "bob", key: TokenKey(secret: secret), ttlSeconds: 60, now: now)
    let parts = good.split(separator: ".").map(String.init)
    let malformed = [
      "", ".", "..", "...", "a.b", parts[0], "\(parts[0]).\(parts[1])", "\(parts[0]).\(parts[1]).", "\(good).",
      "\(good).x", ".\(good)", "\(parts[0])..\(parts[1]).\(parts[2])", "\(parts[0])..\(parts[2])", "\(good)=",
      "\(good)\0", "\(good)\n", " \(good)", "\(parts[0]).\(parts[1])+.\(parts[2])", "\(good)é",
      String(repeating: "a", count: Tokens.maximumBytes) + ".b.c",
    ]
    for token in malformed { #expect(refusal(of: token) == .malformed, "\(token.prefix(200))") }
  }

  @Test(arguments: [
    (#"{"sub":"bob","exp":1799999999}"#, TokenError.Code.expired),
    (#"{"sub":"bob","exp":1800000000}"#, .expired),
    (#"{"sub":"bob","exp":0}"#, .expired),
    (#"{"sub":"bob"}"#, .noExpiry),
    (#"{"sub":"bob","exp":"1800000060"}"#, .noExpiry),
    (#"{"sub":"bob","exp":1800000060.5}"#, .noExpiry),
    (#"{"sub":"bob","exp":1.8e12}"#, .noExpiry),
    (#"{"sub":"bob","exp":-1}"#, .noExpiry),
    (#"{"sub":"bob","exp":null}"#, .noExpiry),
    (#"{"sub":"bob","exp":true}"#, .noExpiry),
    (#"{"sub":"bob","exp":[1800000060]}"#, .noExpiry),
    (#"{"exp":1800000060}"#, .badUser),
    (#"{"sub":"","exp":1800000060}"#, .badUser),
    (#"{"sub":7,"exp":1800000060}"#, .badUser),
    (#"{"sub":"bob}","exp":1800000060}"#, .badUser),
    (#"{"sub":"b ob","exp":1800000060}"#, .badUser),
    (#"{"sub":"bob\n","exp":1800000060}"#, .badUser),
    (#"{"sub":"böb","exp":1800000060}"#, .badUser),
    (#"{"sub":"bob","exp":1800000060,"nbf":1800000001}"#, .notYetValid),
    (#"{"sub":"bob","exp":1800000060,"nbf":"1"}"#, .malformed),
    (#"{"sub":"bob","exp":1800000060,"iat":1800000001}"#, .notYetValid),
    (#"{"sub":"bob","exp":1800000060,"iat":17.5}"#, .malformed),
    (#"{"sub":"bob","exp":1800000060.0}"#, .noExpiry),
    (#"{"sub":"bob","exp":{"a":1800000060}}"#, .noExpiry),
    (#"{"sub":["bob"],"exp":1800000060}"#, .badUser),
    (#"{"sub":"bob","exp":1800000060,"aud":"other"}"#, .otherAudience),
    (#"{"sub":"bob","exp":1800000060,"aud":["other"]}"#, .otherAudience),
    (#"{"sub":"bob","exp":1800000060,"aud":[]}"#, .otherAudience),
    (#"{"sub":"bob","exp":1800000060,"aud":7}"#, .otherAudience),
    (#"{"sub":"bob","exp":1800000060,"aud":null}"#, .otherAudience),
    (#"{"sub":"bob","exp":1800000060,"aud":{"simp":1}}"#, .otherAudience),
  ])
  func wrongClaims(claims: String, code: TokenError.Code) {
    // By hand: libjwt's own reading would change some of them on the way.
    #expect(refusal(of: signByHand(claims)) == code)
  }

  /// libjwt does not read these, so that it is what refuses them.
  @Test(arguments: [
    #"{"sub":"bob","exp":18446744073709551616}"#, #"{"sub":"bob","exp":9223372036854775808}"#,
    #"{"sub":"bob\u0000","exp":1800000060}"#,
  ])
  func numbersAndTextsBeyondTheLibrary(claims: String) {
    #expect(refusal(of: signByHand(claims)) == .badSignature)
  }

  @Test(arguments: [
    #"{"sub":"bob","exp":1800000001}"#,
    #"{"sub":"bob","exp":1800000060,"nbf":1800000000}"#,
    #"{"sub":"bob","exp":1800000060,"aud":"simp"}"#,
    #"{"sub":"bob","exp":1800000060,"aud":["simp"],"iss":"somebody","roles":["a","b"]}"#,
    #"{"sub":"bob","exp":1800000060,"aud":["other","simp"]}"#,
    #"{"sub":"bob","exp":9223372036854775807,"iat":1800000000,"x":-1.5e-7,"y":"\ud83d\ude00\n\/","z":null}"#,
  ])
  func rightClaims(claims: String) {
    #expect(refusal(of: sign(claims)) == nil)
  }

  @Test func namesOf65BytesAreRefusedAnd64Taken() {
    let name = String(repeating: "n", count: 64)
    #expect(refusal(of: sign(#"{"sub":"\#(name)","exp":1800000060}"#)) == nil)
    #expect(refusal(of: sign(#"{"sub":"\#(name)n","exp":1800000060}"#)) == .badUser)
  }

  private func refusal(of token: String) -> TokenError.Code? {
    do throws(TokenError) {
      _ = try Tokens.check(token, key: TokenKey(secret: secret), now: now)
      return nil
    } catch {
      return error.code
    }
  }

  private func sign(
    _ claims: String, header: String? = nil, algorithm: jwt_alg_t = JWT_ALG_HS256, secret: [UInt8]? = nil
  ) -> String { Forge.sign(claims, header: header, algorithm: algorithm, key: secret ?? self.secret) }

  private func base64url(_ text: String) -> String { Forge.base64url(Array(text.utf8)) }

  private func signByHand(_ claims: String, header: String = #"{"alg":"HS256"}"#) -> String {
    Forge.hmac(header: header, claims: Array(claims.utf8), secret: secret)
  }

  private func signByHand(bytes: [UInt8]) -> String {
    Forge.hmac(header: #"{"alg":"HS256"}"#, claims: bytes, secret: secret)
  }
}
