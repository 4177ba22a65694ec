/// Makes and checks the tokens that a login carries: JSON Web Tokens (RFC 7519) signed with HS256, RS256 or ES256.
public enum Tokens {
  /// What a token that passed `check` says.
  public struct Claims: Hashable, Sendable {
    /// `sub`: a valid user name.
    public let user: String
    /// `exp`, in seconds of Unix time; with the leeway, later than the `now` it was checked with.
    public let expires: UInt64
    /// `iat`, in seconds of Unix time.
    public let issued: UInt64?
    /// Whether its bearer may end sessions of others and read counters.
    public let isAdmin: Bool

    /// Claims of one's own, for those who test what comes after a check.
    public init(user: String, expires: UInt64, issued: UInt64? = nil, isAdmin: Bool = false) {
      self.user = user
      self.expires = expires
      self.issued = issued
      self.isAdmin = isAdmin
    }
  }

  /// Longer tokens are malformed: a login has 4 KiB in all. Bytes.
  public static let maximumBytes = 3072

  /// The claim, and its value, that makes an administrator.
  static let adminClaim = (name: "simp", value: "admin")

  // MARK: - Making

  /// Makes a token that lets `user` in from now until `now + ttlSeconds`.
  ///
  /// - Parameters:
  ///   - user: 1 to 64 of `A-Z a-z 0-9 . _ @ -`.
  ///   - ttlSeconds: how long the token lasts, at least 1 s.
  ///   - now: Unix time in seconds.
  /// - Throws: as `mint(_:key:now:)`.
  public static func mint(user: String, key: TokenKey, ttlSeconds: UInt64, now: UInt64) throws(TokenError) -> String {
    try mint(TokenGrant(user: user, lifetimeSeconds: ttlSeconds), key: key, now: now)
  }

  /// Makes a token.
  ///
  /// - Parameters:
  ///   - key: one that can sign. Its name goes into the header as `kid`.
  ///   - now: Unix time in seconds, which becomes `iat`.
  /// - Throws: `badUser` for a name outside the grammar; `noExpiry` when the end is not a time after the beginning;
  ///   `badKey` for a public key; `malformed` for a text with U+0000 or a token that would be too long.
  public static func mint(_ grant: TokenGrant, key: TokenKey, now: UInt64) throws(TokenError) -> String {
    guard isValidUser(grant.user) else { throw badUser }
    let start = grant.notBefore ?? now
    let (expires, overflow) = start.addingReportingOverflow(grant.lifetimeSeconds)
    guard !overflow, expires > start, expires <= UInt64(Int64.max), now <= UInt64(Int64.max) else {
      throw TokenError(.noExpiry, "a token must end after it begins: \(grant.lifetimeSeconds) s is no lifetime")
    }
    let token = try WebToken()
    try token.add("sub", grant.user)
    try token.add("iat", Int(now))
    try token.add("exp", Int(expires))
    if let start = grant.notBefore { try token.add("nbf", Int(start)) }
    if let audience = grant.audience { try token.add("aud", audience) }
    if let issuer = grant.issuer { try token.add("iss", issuer) }
    if grant.isAdmin { try token.add(adminClaim.name, adminClaim.value) }
    let text = try token.sign(with: key)
    guard text.utf8.count <= maximumBytes else {
      throw TokenError(.malformed, "the token would have \(text.utf8.count) bytes; a login takes \(maximumBytes)")
    }
    return text
  }

  // MARK: - Checking

  /// Checks shape, key, algorithm, signature, `exp`, `nbf`, `iat`, `aud`, `iss` and `sub`.
  ///
  /// The key is found by `kid` among `keys`, and the algorithm is the key's; keys that the header brings along or names
  /// (`jwk`, `jku`, `x5c`, `x5u`) are not looked at.
  ///
  /// - Parameter now: Unix time in seconds. Without leeway a token ends at the second `exp`: `now == exp` is expired.
  /// - Throws: the first thing wrong with it. Nothing of its claims is told before its signature was right.
  public static func check(
    _ token: String, keys: KeySet, rules: TokenRules = TokenRules(), now: UInt64
  ) throws(TokenError) -> Claims {
    let parts = try TokenParts(token)
    let key = try keys.key(for: parts.keyName)
    guard parts.algorithm == key.algorithm.rawValue else {
      throw TokenError(.badSignature, "the token is not signed with \(key.algorithm.rawValue), which its key is for")
    }
    try WebToken.verify(token, with: key)
    return try claims(parts.claims, rules: rules, now: now)
  }

  /// `check` with the only key there is, and no leeway.
  public static func check(_ token: String, key: TokenKey, now: UInt64) throws(TokenError) -> Claims {
    try check(token, keys: KeySet(key), now: now)
  }

  private static func claims(_ claims: [String: JSON], rules: TokenRules, now: UInt64) throws(TokenError) -> Claims {
    guard let expires = claims["exp"]?.seconds else {
      throw TokenError(.noExpiry, "the token has no end: exp is required, in whole seconds of Unix time")
    }
    let (end, overflow) = expires.addingReportingOverflow(rules.leewaySeconds)
    guard overflow || now < end else {
      throw TokenError(.expired, "the token expired \(now - expires) s ago; get a new one")
    }
    // Not before it begins, and not before it was made.
    for name in ["nbf", "iat"] {
      guard let claim = claims[name] else { continue }
      guard let start = claim.seconds else { throw TokenError(.malformed, "the token's \(name) is not a time") }
      guard start <= now || start - now <= rules.leewaySeconds else {
        throw TokenError(.notYetValid, "the token is valid only in \(start - now) s; is this machine's clock right?")
      }
    }
    try rules.check(audience: claims["aud"], issuer: claims["iss"])
    guard let user = claims["sub"]?.string, isValidUser(user) else { throw badUser }
    return Claims(
      user: user, expires: expires, issued: claims["iat"]?.seconds,
      isAdmin: claims[adminClaim.name] == .string(adminClaim.value))
  }

  /// Whether `name` is a user name: 1 to 64 of `A-Z a-z 0-9 . _ @ -`.
  public static func isValidUser(_ name: String) -> Bool {
    let bytes = name.utf8
    guard (1...64).contains(bytes.count) else { return false }
    return bytes.allSatisfy { byte in
      (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
        || [0x2D, 0x2E, 0x40, 0x5F].contains(byte)
    }
  }

  private static let badUser = TokenError(.badUser, "not a user name: 1 to 64 of A-Z a-z 0-9 . _ @ -")
}
