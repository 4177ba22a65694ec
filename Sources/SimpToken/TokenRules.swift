/// What is asked of a token beside a right signature and a time that is not over.
public struct TokenRules: Hashable, Sendable {
  /// What `aud` has to be, or to hold, where a token carries one.
  public static let standardAudience = "simp"
  /// Most that clocks may be apart, in seconds.
  public static let maximumLeewaySeconds: UInt64 = 300

  /// nil: `standardAudience`, and a token without `aud` is good. Else every token has to carry this one.
  public var audience: String?
  /// What `iss` has to be; nil: anything or nothing.
  public var issuer: String?
  /// How far the clocks of issuer and server may be apart: a token is good this long before `nbf` and after `exp`.
  public var leewaySeconds: UInt64 = 0

  public init() {}

  /// - Throws: `otherAudience`, `otherIssuer`.
  func check(audience claim: JSON?, issuer: JSON?) throws(TokenError) {
    let wanted = audience ?? Self.standardAudience
    switch claim {
    case nil:
      guard audience == nil else {
        throw TokenError(.otherAudience, "the token does not say for whom it is: its aud has to be \"\(wanted)\"")
      }
    // RFC 7519, 4.1.3: one text, or a list in which we are.
    case .string(wanted)?: break
    case .array(let names)? where names.contains(.string(wanted)): break
    default: throw TokenError(.otherAudience, "the token is for somebody else: its aud is not \"\(wanted)\"")
    }
    if let wanted = self.issuer, issuer != .string(wanted) {
      throw TokenError(.otherIssuer, "the token is of another issuer: its iss is not \"\(wanted)\"")
    }
  }
}
