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

  /// A token whose signature is `key`'s by HS256.
  init(verifying token: String, key: TokenKey) throws(TokenError) {
    var decoded: OpaquePointer?
    // SAFETY: `token` holds no zero byte (its shape was checked); libjwt copies what it keeps.
    let status = unsafe key.withBytes { secret in
      unsafe jwt_decode(&decoded, token, secret.baseAddress, Int32(secret.count))
    }
    guard status != ENOMEM else { throw Self.outOfMemory }
    guard status == 0, let decoded = unsafe decoded else {
      throw TokenError(.badSignature, "the token was not signed with this server's key, or was changed on the way")
    }
    unsafe handle = decoded
    // libjwt verifies by the algorithm that the token names, so a pass means nothing before this comparison.
    guard unsafe jwt_get_alg(handle) == JWT_ALG_HS256 else {
      throw TokenError(.badSignature, "the token is not signed with HS256")
    }
  }

  // SAFETY (all below): `handle` lives as long as this object, and C strings are copied before the next call.

  deinit { unsafe jwt_free(handle) }

  func add(_ name: String, _ value: String) throws(TokenError) {
    guard unsafe jwt_add_grant(handle, name, value) == 0 else { throw Self.outOfMemory }
  }

  func add(_ name: String, _ value: Int) throws(TokenError) {
    guard unsafe jwt_add_grant_int(handle, name, value) == 0 else { throw Self.outOfMemory }
  }

  /// The JSON text of a claim, nil when there is none.
  func grant(_ name: String) -> String? {
    guard let text = unsafe jwt_get_grants_json(handle, name) else { return nil }
    defer { unsafe free(text) }
    return unsafe String(cString: text)
  }

  /// The JSON text of a header field, nil when there is none.
  func header(_ name: String) -> String? {
    guard let text = unsafe jwt_get_headers_json(handle, name) else { return nil }
    defer { unsafe free(text) }
    return unsafe String(cString: text)
  }

  /// A claim that is a string, nil when it is none or something else.
  func string(_ name: String) -> String? {
    guard let text = unsafe jwt_get_grant(handle, name) else { return nil }
    return unsafe String(cString: text)
  }

  func sign(with key: TokenKey) throws(TokenError) -> String {
    let status = unsafe key.withBytes { secret in
      unsafe jwt_set_alg(handle, JWT_ALG_HS256, secret.baseAddress, Int32(secret.count))
    }
    guard status == 0, let text = unsafe jwt_encode_str(handle) else { throw Self.outOfMemory }
    defer { unsafe free(text) }
    return unsafe String(cString: text)
  }

  private static let outOfMemory = TokenError(.failed, "the token library failed; is there memory left?")
}
