internal import COpenSSL

@testable import SimpToken

/// Login tokens: any text, and any header and claims under a right signature. Nobody is let in but by a right signature
/// and claims that hold.
enum TokenTarget {
  static let target = FuzzTarget(name: "token", maximumBytes: 384, seeds: { seeds }, run: run)

  private static let secret = [UInt8](repeating: 0x5A, count: 32)
  private static let named = TokenKey(secret: secret, name: "one")
  private static let alone = KeySet(TokenKey(secret: secret))
  private static let several = KeySet(
    keys: [named, TokenKey(secret: [UInt8](repeating: 0x61, count: 32), name: "two")], passedOver: [])
  private static let now: UInt64 = 1_800_000_000

  private static func run(_ input: [UInt8]) throws {
    guard let kind = input.first else { return }
    let rest = Array(input.dropFirst())
    switch kind & 3 {
    case 0: try check(String(decoding: rest, as: UTF8.self), kind)
    case 1, 2: try checkSigned(rest, kind)
    default: try readJSON(rest)
    }
  }

  /// Header and claims, cut at the first zero byte.
  private static func checkSigned(_ text: [UInt8], _ kind: UInt8) throws {
    let cut = text.firstIndex(of: 0) ?? text.count
    let signed =
      Base64URL.encode(Array(text[..<cut])) + [UInt8(ascii: ".")] + Base64URL.encode(Array(text[cut...].dropFirst()))
    var code = mac(signed)
    if kind & 4 != 0 { code[Int(kind >> 3)] ^= 1 }
    let token = String(decoding: signed + [UInt8(ascii: ".")] + Base64URL.encode(code), as: UTF8.self)
    let isTaken = try check(token, kind)
    try require(!isTaken || kind & 4 == 0, "taken with a turned bit in its signature")
  }

  @discardableResult
  private static func check(_ token: String, _ kind: UInt8) throws -> Bool {
    let keys = kind & 64 == 0 ? alone : several
    var rules = TokenRules()
    if kind & 128 != 0 { rules.leewaySeconds = 60 }
    if kind & 8 != 0 { rules.issuer = "x" }
    if kind & 16 != 0 { rules.audience = "chat" }
    guard let claims = try? Tokens.check(token, keys: keys, rules: rules, now: now) else { return false }

    let parts = token.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).map(Array.init)
    try require(parts.count == 3, "\(parts.count) parts")
    try require(Base64URL.decode(parts[2]) == mac(parts[0] + [UInt8(ascii: ".")] + parts[1]), "not signed by the key")
    guard let header = Base64URL.decode(parts[0]), let body = Base64URL.decode(parts[1]) else {
      throw Violation(description: "taken though it is no base64url")
    }
    try require(holds(header, "\"HS256\"") || holds(header, "\\u"), "taken under another algorithm")
    try require(keys.keys.count == 1 || holds(header, "one") || holds(header, "\\u"), "taken without its key's name")
    try require(claims.expires + rules.leewaySeconds > now, "expired at \(claims.expires)")
    try require(holds(body, "\(claims.expires)"), "an end that stands nowhere")
    try require(Tokens.isValidUser(claims.user), "a user \(claims.user)")
    try require(holds(body, claims.user) || holds(body, "\\"), "a user that stands nowhere")
    let isWritten = { (claim: String) in holds(body, "\"\(claim)\"") || holds(body, "\\") }
    try require(
      rules.audience == nil && !holds(body, "\"aud\"") || isWritten(rules.audience ?? "simp"),
      "taken though it is for somebody else")
    try require(rules.issuer.map(isWritten) ?? true, "taken though it is of somebody else")
    try require(!claims.isAdmin || holds(body, "admin") || holds(body, "\\u"), "an administrator from nowhere")
    return true
  }

  /// What is read of JSON is written and read the same; key sets keep their limits.
  private static func readJSON(_ text: [UInt8]) throws {
    guard let value = JSON(text) else { return }
    try require(JSON(Array(value.text.utf8)) == value, "\(value) came back as something else")
    guard let set = try? JSONWebKeys.read(text, path: "keys") else { return }
    try require(!set.keys.isEmpty && set.keys.count <= 256, "\(set.keys.count) keys")
    let names = set.keys.compactMap(\.name)
    try require(Set(names).count == names.count, "two keys of one name")
    try require(set.keys.count == 1 || names.count == set.keys.count, "a key without a name")
  }

  private static func holds(_ bytes: [UInt8], _ text: String) -> Bool {
    let wanted = Array(text.utf8)
    guard !wanted.isEmpty, bytes.count >= wanted.count else { return false }
    return (0...bytes.count - wanted.count).contains { bytes[$0..<$0 + wanted.count].elementsEqual(wanted) }
  }

  private static func mac(_ data: [UInt8]) -> [UInt8] {
    var code = [UInt8](repeating: 0, count: 32)
    var length: UInt32 = 0
    // SAFETY: reads and writes the arrays only, within the lengths that are given.
    let result = unsafe HMAC(EVP_sha256(), secret, Int32(secret.count), data, data.count, &code, &length)
    unsafe precondition(result != nil && length == 32)
    return code
  }

  private static var seeds: [[UInt8]] {
    let header = #"{"alg":"HS256","typ":"JWT"}"#
    let named = #"{"alg":"HS256","kid":"one"}"#
    let claims = #"{"sub":"alice","exp":1800000060,"nbf":1799999999,"aud":["simp"],"iat":1799999000}"#
    let admin = #"{"sub":"root","exp":1800000060,"simp":"admin","iss":"x"}"#
    let keys = #"{"keys":[{"kty":"oct","k":"WlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlo","kid":"one","alg":"HS256"}]}"#
    let good = (try? Tokens.mint(user: "bob", key: TokenKey(secret: secret), ttlSeconds: 60, now: now)) ?? ""
    func seed(_ kind: UInt8, _ header: String, _ claims: String) -> [UInt8] {
      [kind] + Array(header.utf8) + [0] + Array(claims.utf8)
    }
    return [
      seed(25, header, #"{"sub":"bob","exp":1800000060,"aud":["a","chat"],"iss":"x","simp":"admin"}"#),
      seed(17, header, #"{"sub":"bob","exp":1800000060,"aud":"chat"}"#), seed(9, header, admin),
      seed(1, header, claims), seed(65, named, claims), seed(5, header, claims), seed(130, header, admin),
      [0] + Array(good.utf8), [3] + Array(keys.utf8), [3] + Array(#"{"a":[1,-2.5e3,"\u00e9\n",null,true,{}]}"#.utf8),
      [3] + Array(#"{"kty":"EC","crv":"P-256","x":"AA","y":"AQ"}"#.utf8),
      // RFC 7517, A.1.
      [3]
        + Array(
          (#"{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","#
            + #""y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM","alg":"ES256","kid":"1"}"#).utf8),
    ]
  }
}
