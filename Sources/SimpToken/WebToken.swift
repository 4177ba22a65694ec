internal import CJWT
import Glibc

/// libjwt's object, freed once. Local to the call that makes it.
@safe
final class WebToken {
  private let handle: OpaquePointer

  /// An empty token to add claims to.
  init() throws(TokenError) {
    var made: OpaquePointer?
    guard unsafe jwt_new(&made) == 0, let made = unsafe made else { throw Self.outOfMemory }
    unsafe handle = made
  }

  // SAFETY (below): `handle` lives as long as this object, and C strings are copied before the next call.

  deinit { unsafe jwt_free(handle) }

  /// - Throws: `badSignature` when it is not `key`'s by the key's algorithm.
  static func verify(_ token: String, with key: TokenKey) throws(TokenError) {
    var decoded: OpaquePointer?
    // SAFETY: `token` holds no zero byte (its shape was checked); libjwt copies what it keeps.
    let status = unsafe key.checking.withBytes { bytes in
      unsafe jwt_decode(&decoded, token, bytes.baseAddress, Int32(bytes.count))
    }
    guard status != ENOMEM else { throw outOfMemory }
    guard status == 0, let decoded = unsafe decoded else {
      throw TokenError(.badSignature, "the token was not signed with this server's key, or was changed on the way")
    }
    defer { unsafe jwt_free(decoded) }
    // libjwt verifies by the algorithm that the token names, so a pass means nothing before this comparison.
    guard unsafe jwt_get_alg(decoded) == key.algorithm.library else {
      throw TokenError(.badSignature, "the token is not signed with \(key.algorithm.rawValue)")
    }
  }

  /// - Throws: `malformed` for a text with U+0000, which would be cut there.
  func add(_ name: String, _ value: String) throws(TokenError) {
    guard !value.utf8.contains(0) else { throw TokenError(.malformed, "\(name) must not hold U+0000") }
    guard unsafe jwt_add_grant(handle, name, value) == 0 else { throw Self.outOfMemory }
  }

  func add(_ name: String, _ value: Int) throws(TokenError) {
    guard unsafe jwt_add_grant_int(handle, name, value) == 0 else { throw Self.outOfMemory }
  }

  func sign(with key: TokenKey) throws(TokenError) -> String {
    guard let signing = key.signing else { throw TokenError(.badKey, "a public key makes no tokens") }
    if let name = key.name, unsafe jwt_add_header(handle, "kid", name) != 0 { throw Self.outOfMemory }
    let status = unsafe signing.withBytes { bytes in
      unsafe jwt_set_alg(handle, key.algorithm.library, bytes.baseAddress, Int32(bytes.count))
    }
    guard status == 0, let text = unsafe jwt_encode_str(handle) else { throw Self.outOfMemory }
    defer { unsafe free(text) }
    return unsafe String(cString: text)
  }

  private static let outOfMemory = TokenError(.failed, "the token library failed; is there memory left?")
}
