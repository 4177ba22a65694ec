internal import CJWT

/// How tokens are signed (RFC 7518, section 3.1). It belongs to the key; nothing in a token changes it.
public enum TokenAlgorithm: String, Hashable, Sendable, CaseIterable {
  /// HMAC with SHA-256: whoever checks can also make. The secret has at least 32 bytes.
  case hs256 = "HS256"
  /// RSA of 2048 to 8192 bits, PKCS #1 v1.5, SHA-256.
  case rs256 = "RS256"
  /// ECDSA on P-256 with SHA-256.
  case es256 = "ES256"

  /// `hs256`, as arguments of programs have it.
  public var name: String { rawValue.lowercased() }

  var library: jwt_alg_t {
    switch self {
    case .hs256: JWT_ALG_HS256
    case .rs256: JWT_ALG_RS256
    case .es256: JWT_ALG_ES256
    }
  }
}
