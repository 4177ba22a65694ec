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
      #"{"kid":"../../../../dev/null"}"#,
      #"{"kid":"signing.key"}"#,
    ]
    for header in headers {
      let token = sign(#"{"sub":"bob","exp":1800000060}"#, header: header, secret: attacker)
      #expect(refusal(of: token) == .badSignature, "\(header)")
    }
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
    (#"{"sub":"bob","exp":1800000060,"aud":"other"}"#, .otherAudience),
    (#"{"sub":"bob","exp":1800000060,"aud":["other"]}"#, .otherAudience),
  ])
  func wrongClaims(claims: String, code: TokenError.Code) {
    #expect(refusal(of: sign(claims)) == code)
  }

  @Test(arguments: [
    #"{"sub":"bob","exp":1800000001}"#,
    #"{"sub":"bob","exp":1800000060,"nbf":1800000000}"#,
    #"{"sub":"bob","exp":1800000060,"aud":"simp"}"#,
    #"{"sub":"bob","exp":1800000060,"aud":["simp"],"iss":"somebody","roles":["a","b"]}"#,
    #"{"sub":"bob","exp":9223372036854775807}"#,
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
  ) -> String {
    let secret = secret ?? self.secret
    var token: OpaquePointer?
    unsafe precondition(jwt_new(&token) == 0)
    defer { unsafe jwt_free(token) }
    unsafe precondition(jwt_add_grants_json(token, claims) == 0, claims)
    if let header { unsafe precondition(jwt_add_headers_json(token, header) == 0, header) }
    let status =
      unsafe algorithm == JWT_ALG_NONE
      ? jwt_set_alg(token, algorithm, nil, 0)
      : jwt_set_alg(token, algorithm, secret, Int32(secret.count))
    precondition(status == 0)
    let text = unsafe jwt_encode_str(token)!
    defer { unsafe free(text) }
    return unsafe String(cString: text)
  }

  private func base64url(_ text: String) -> String {
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    var out = ""
    var bits = 0
    var value = 0
    for byte in text.utf8 {
      value = value << 8 | Int(byte)
      bits += 8
      while bits >= 6 {
        bits -= 6
        out.append(alphabet[value >> bits & 63])
      }
    }
    if bits > 0 { out.append(alphabet[value << (6 - bits) & 63]) }
    return out
  }
}
