/// What a new token is to say.
public struct TokenGrant: Hashable, Sendable {
  /// `sub`: 1 to 64 of `A-Z a-z 0-9 . _ @ -`.
  public var user: String
  /// How long it lasts, at least 1 s. Counted from `notBefore`, or from now.
  public var lifetimeSeconds: UInt64
  /// `nbf`, in seconds of Unix time; nil: good at once.
  public var notBefore: UInt64?
  /// `aud`; nil: for whoever takes the key.
  public var audience: String?
  /// `iss`.
  public var issuer: String?
  /// Whether its bearer may end sessions of others and read counters: the claim `simp` with the text `admin`.
  public var isAdmin = false

  public init(user: String, lifetimeSeconds: UInt64) {
    self.user = user
    self.lifetimeSeconds = lifetimeSeconds
  }
}
