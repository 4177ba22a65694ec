internal import CJWT
import Glibc

/// Makes and checks the tokens that a login carries: JSON Web Tokens (RFC 7519) signed with HS256.
public enum Tokens {
  /// What a token that passed `check` says.
  public struct Claims: Hashable, Sendable {
    /// `sub`: a valid user name.
    public let user: String
    /// `exp`, in seconds of Unix time; later than the `now` it was checked with.
    public let expires: UInt64

    /// Claims of one's own, for those who test what comes after a check.
    public init(user: String, expires: UInt64) {
      self.user = user
      self.expires = expires
    }
  }

  /// What `aud` has to be where a token carries one.
  public static let audience = "simp"

  /// Longer tokens are malformed: a login has 4 KiB in all. Bytes.
  public static let maximumBytes = 3072

  /// Makes a token that lets `user` in from now until `now + ttlSeconds`.
  ///
  /// - Parameters:
  ///   - user: 1 to 64 of `A-Z a-z 0-9 . _ @ -`.
  ///   - ttlSeconds: how long the token lasts, at least 1 s.
  ///   - now: Unix time in seconds.
  /// - Throws: `badUser` for a name outside the grammar; `noExpiry` when the end is not a time after `now`.
  public static func mint(user: String, key: TokenKey, ttlSeconds: UInt64, now: UInt64) throws(TokenError) -> String {
    guard isValidUser(user) else { throw badUser }
    let (expires, overflow) = now.addingReportingOverflow(ttlSeconds)
    guard !overflow, expires > now, expires <= UInt64(Int64.max) else {
      throw TokenError(.noExpiry, "a token must end after it begins: \(ttlSeconds) s is no lifetime")
    }
    let token = try WebToken()
    try token.add("sub", user)
    try token.add("iat", Int(now))
    try token.add("exp", Int(expires))
    return try token.sign(with: key)
  }

  /// Checks shape, algorithm, signature, `exp`, `nbf`, `aud` (if there) and `sub`, with no leeway.
  ///
  /// The algorithm is the key's, HS256; whatever else the header carries (`jwk`, `jku`, `x5u`, `kid`) is not looked at.
  ///
  /// - Parameter now: Unix time in seconds. A token ends at the second `exp`: `now == exp` is expired already.
  /// - Throws: the first thing wrong with it. Nothing of the token is told before its signature was right.
  public static func check(_ token: String, key: TokenKey, now: UInt64) throws(TokenError) -> Claims {
    guard hasShape(token) else {
      throw TokenError(.malformed, "not a token: three parts of base64url with dots between")
    }
    let decoded = try WebToken(verifying: token, key: key)
    guard decoded.header("crit") == nil else {
      throw TokenError(.malformed, "the token's header asks for extensions (crit) that are not known here")
    }
    guard let expires = wholeSeconds(decoded.grant("exp")) else {
      throw TokenError(.noExpiry, "the token has no end: exp is required, in whole seconds of Unix time")
    }
    guard now < expires else {
      throw TokenError(.expired, "the token expired \(now - expires) s ago; get a new one")
    }
    if let text = decoded.grant("nbf") {
      guard let start = wholeSeconds(text) else { throw TokenError(.malformed, "the token's nbf is not a time") }
      guard now >= start else {
        throw TokenError(.notYetValid, "the token is valid only in \(start - now) s; is this machine's clock right?")
      }
    }
    if let text = decoded.grant("aud"), text != "\"\(audience)\"", text != "[\"\(audience)\"]" {
      throw TokenError(.otherAudience, "the token is for somebody else: its aud is not \"\(audience)\"")
    }
    guard let user = decoded.string("sub"), isValidUser(user) else { throw badUser }
    return Claims(user: user, expires: expires)
  }

  /// Whether `name` is a user name: 1 to 64 of `A-Z a-z 0-9 . _ @ -`.
  public static func isValidUser(_ name: String) -> Bool {
    let bytes = name.utf8
    guard (1...64).contains(bytes.count) else { return false }
    return bytes.allSatisfy { isLetterOrDigit($0) || $0 == 0x2D || $0 == 0x2E || $0 == 0x40 || $0 == 0x5F }
  }

  private static let badUser = TokenError(.badUser, "not a user name: 1 to 64 of A-Z a-z 0-9 . _ @ -")

  /// Three non-empty parts of base64url without padding. Checked before the library sees it, for libjwt 1.10 also
  /// takes the plain alphabet, and works on a C string that a zero byte would cut.
  private static func hasShape(_ token: String) -> Bool {
    guard token.utf8.count <= maximumBytes else { return false }
    let parts = token.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    return parts.count == 3
      && parts.allSatisfy { part in
        !part.isEmpty && part.allSatisfy { isLetterOrDigit($0) || $0 == 0x2D || $0 == 0x5F }
      }
  }

  private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
    (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
  }

  /// JSON text of a claim as a time. Fractions, exponents, strings and negative numbers are no times here.
  private static func wholeSeconds(_ json: String?) -> UInt64? {
    guard let json, json.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let value = Int64(json) else { return nil }
    return UInt64(value)
  }
}
