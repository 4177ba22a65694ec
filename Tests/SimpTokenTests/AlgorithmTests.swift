internal import CJWT
import Testing

@testable import SimpToken

/// The algorithm is the key's, for each of the three.
@Suite struct AlgorithmTests {
  private static let keys: [TokenAlgorithm: TokenKey] = {
    var keys: [TokenAlgorithm: TokenKey] = [:]
    for algorithm in TokenAlgorithm.allCases { keys[algorithm] = try? KeyRig().make(algorithm) }
    return keys
  }()

  let now: UInt64 = 1_800_000_000
  let claims = #"{"sub":"bob","exp":1800000060}"#

  private func key(_ algorithm: TokenAlgorithm) throws -> TokenKey { try #require(Self.keys[algorithm]) }

  private var all: KeySet {
    get throws { KeySet(keys: try TokenAlgorithm.allCases.map(key), passedOver: []) }
  }

  @Test(arguments: TokenAlgorithm.allCases)
  func whatIsMintedPasses(algorithm: TokenAlgorithm) throws {
    let key = try key(algorithm)
    var grant = TokenGrant(user: "bob", lifetimeSeconds: 60)
    grant.isAdmin = true
    let token = try Tokens.mint(grant, key: key, now: now)
    let expected = Tokens.Claims(user: "bob", expires: now + 60, issued: now, isAdmin: true)
    #expect(try Tokens.check(token, key: key, now: now) == expected)
    #expect(try Tokens.check(token, keys: all, now: now) == expected)
    // The public half alone checks it, and makes none.
    let open = TokenKey(algorithm: algorithm, name: key.name, checking: key.checking, signing: nil)
    #expect(try Tokens.check(token, key: open, now: now) == expected)
    #expect(throws: TokenError.self) { try Tokens.mint(grant, key: open, now: now) }
  }

  @Test(arguments: TokenAlgorithm.allCases)
  func anotherKeyOfTheSameKindIsRefused(algorithm: TokenAlgorithm) throws {
    let other = try KeyRig().make(algorithm)
    let token = try Tokens.mint(user: "bob", key: other, ttlSeconds: 60, now: now)
    #expect(try refusal(of: token) == .badSignature)
  }

  @Test(arguments: TokenAlgorithm.allCases)
  func changedTokensAreRefused(algorithm: TokenAlgorithm) throws {
    let token = try Tokens.mint(user: "bob", key: key(algorithm), ttlSeconds: 60, now: now)
    for index in token.indices where token[index] != "." && token.distance(from: token.startIndex, to: index) % 7 == 0 {
      var changed = token
      changed.replaceSubrange(index...index, with: token[index] == "A" ? "B" : "A")
      #expect(try refusal(of: changed) != nil, "byte \(token.distance(from: token.startIndex, to: index))")
    }
    let parts = token.split(separator: ".").map(String.init)
    for signature in ["", "AA", String(parts[2].dropLast(4)), parts[2] + "AAAA", parts[2] + "." + parts[2]] {
      #expect(try refusal(of: "\(parts[0]).\(parts[1]).\(signature)") != nil, "\(signature.count) bytes of signature")
    }
  }

  @Test(arguments: TokenAlgorithm.allCases)
  func noOtherAlgorithmThanTheKeysIsTaken(algorithm: TokenAlgorithm) throws {
    let key = try key(algorithm)
    let name = try #require(key.name)
    for other in ["none", "None", "NONE", "HS256", "HS384", "HS512", "RS256", "RS512", "ES256", "ES384", "PS256", ""]
    where other != algorithm.rawValue {
      let header = #"{"alg":"\#(other)","kid":"\#(name)"}"#
      for signature in ["", "AA"] {
        let token = "\(Forge.base64url(Array(header.utf8))).\(Forge.base64url(Array(claims.utf8))).\(signature)"
        #expect(try refusal(of: token) == (signature.isEmpty ? .malformed : .badSignature), "\(other)")
      }
    }
  }

  /// The oldest trick: an attacker knows the public key, calls it a secret, and signs with HS256.
  @Test(arguments: [TokenAlgorithm.rs256, .es256])
  func aPublicKeyIsNoSecret(algorithm: TokenAlgorithm) throws {
    let key = try key(algorithm)
    let name = try #require(key.name)
    for (form, secret) in try publicForms(of: key) {
      for header in [#"{"alg":"HS256","kid":"\#(name)"}"#, #"{"typ":"JWT","alg":"HS256"}"#] {
        let token = Forge.hmac(header: header, claims: Array(claims.utf8), secret: secret)
        #expect(code { _ = try Tokens.check(token, key: key, now: now) } == .badSignature, "\(form)")
        let inSet = try refusal(of: token)
        #expect(inSet == .badSignature || inSet == .unknownKey, "\(form)")
      }
    }
  }

  @Test func aKeyOfOneKindIsNotUsedForAnother() throws {
    // Named in the header: right signature, wrong key.
    let elliptic = try key(.es256)
    let rsa = try key(.rs256)
    let secret = try #require(elliptic.signing)
    let token = Forge.sign(
      claims, header: #"{"kid":"\#(try #require(rsa.name))"}"#, algorithm: JWT_ALG_ES256, key: secret.copy)
    #expect(try refusal(of: token) == .badSignature)
    let fitting = Forge.sign(
      claims, header: #"{"kid":"\#(try #require(elliptic.name))"}"#, algorithm: JWT_ALG_ES256, key: secret.copy)
    #expect(try refusal(of: fitting) == nil)
    for other in [JWT_ALG_RS384, JWT_ALG_RS512] {
      let token = Forge.sign(
        claims, header: #"{"kid":"\#(try #require(rsa.name))"}"#, algorithm: other, key: try #require(rsa.signing).copy)
      #expect(try refusal(of: token) == .badSignature)
    }
  }

  /// PEM and DER, of the SubjectPublicKeyInfo and of what is in it, with and without the last line feed.
  private func publicForms(of key: TokenKey) throws -> [(String, [UInt8])] {
    let pem = key.checking.copy
    let body = String(decoding: pem, as: UTF8.self).split(separator: "\n").filter { !$0.hasPrefix("-") }.joined()
    let letters = body.map { $0 == "+" ? "-" : $0 == "/" ? "_" : $0 }.filter { $0 != "=" }
    let der = try #require(Base64URL.decode(String(letters).utf8))
    var forms = [
      ("PEM", pem), ("PEM without line feed", Array(pem.dropLast())), ("DER", der), ("base64", Array(body.utf8)),
    ]
    if key.algorithm == .rs256 {
      // SubjectPublicKeyInfo: a sequence header of 4, the algorithm in 15, a bit string header of 5, then PKCS #1.
      let inner = Array(der[24...])
      #expect(inner.starts(with: [0x30, 0x82]))
      forms += [("PKCS #1 DER", inner), ("PKCS #1 PEM", Array(pkcs1PEM(inner).utf8))]
    } else {
      forms.append(("point", Array(der.suffix(65))))
    }
    return forms
  }

  private func pkcs1PEM(_ der: [UInt8]) -> String {
    var text = Forge.base64url(der).map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 }
    while text.count % 4 != 0 { text.append("=") }
    var lines = "-----BEGIN RSA PUBLIC KEY-----\n"
    for start in stride(from: 0, to: text.count, by: 64) {
      lines += String(text[start..<min(start + 64, text.count)]) + "\n"
    }
    return lines + "-----END RSA PUBLIC KEY-----\n"
  }

  private func refusal(of token: String) throws -> TokenError.Code? {
    let keys = try all
    return code { _ = try Tokens.check(token, keys: keys, now: now) }
  }
}

/// The code of the error that `body` throws.
func code(of body: () throws -> Void) -> TokenError.Code? {
  do { try body() } catch { return (error as? TokenError)?.code }
  return nil
}
