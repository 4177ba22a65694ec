internal import SimpCore

/// Whose tokens are refused though they are good: users that were sent away, each with the time up to which tokens must
/// have been issued to be refused. The memory of one reactor; the store holds the same for all, and for later.
struct Revocations {
  /// How long a user stays noted: longer than any token should last. Seconds.
  static let lifetimeSeconds: UInt64 = 365 * 86_400
  // BOUND: an administrator fills it; beyond this the oldest goes, and the store still knows it.
  static let maximumUsers = 65_536

  /// Unix seconds.
  private(set) var until: [String: UInt64] = [:]

  /// Notes it; a later time stands.
  mutating func insert(_ user: String, until time: UInt64) {
    if until[user] == nil, until.count >= Self.maximumUsers, let oldest = until.min(by: { $0.value < $1.value })?.key {
      until[oldest] = nil
    }
    until[user] = max(until[user] ?? 0, time)
  }

  /// Whether a token is refused. One that does not say when it was issued may be from before.
  mutating func refuses(_ claims: TokenClaims, wallClockSeconds now: UInt64) -> Bool {
    guard let time = until[claims.user] else { return false }
    guard now < time + Self.lifetimeSeconds else {
      until[claims.user] = nil
      return false
    }
    return claims.issued.map { $0 <= time } ?? true
  }
}
