/// Why a token or a signing key was not taken. `description` is for a person and names the remedy; it never holds a
/// token or a key.
public struct TokenError: Error, Hashable, Sendable {
  /// What kind of thing went wrong; callers branch on this, people read `description`.
  public enum Code: Sendable {
    /// Not a token of our form: wrong shape, wrong base64, wrong JSON, or an unknown critical header.
    case malformed
    /// The header names a key (`kid`) that is not there, or none where there are several.
    case unknownKey
    /// The signature is not this key's, or the token asks for another algorithm than the key's.
    case badSignature
    /// `exp` is missing or not a whole number of seconds.
    case noExpiry
    /// `exp` has passed.
    case expired
    /// `nbf`, or `iat`, is still to come.
    case notYetValid
    /// `sub` is missing or no user name.
    case badUser
    /// `aud` names somebody else, or nobody where it has to.
    case otherAudience
    /// `iss` is not the issuer that is asked for.
    case otherIssuer
    /// The key file is missing, unreadable, not a key, or readable by others.
    case badKey
    /// The key file, or the key in it, exists already; it is not overwritten.
    case keyExists
    /// Out of memory or the like inside the library.
    case failed
  }

  public let code: Code
  /// One sentence for a person.
  public let description: String

  init(_ code: Code, _ description: String) {
    self.code = code
    self.description = description
  }
}

extension TokenError: CustomStringConvertible {}
