internal import CJWT
internal import COpenSSL
import Glibc

@testable import SimpToken

/// Makes tokens that `Tokens.mint` would not make.
enum Forge {
  /// Signed by libjwt, from JSON that it can read.
  ///
  /// - Parameter key: secret or PEM of a private key; not used for `none`.
  static func sign(_ claims: String, header: String? = nil, algorithm: jwt_alg_t, key: [UInt8]) -> String {
    var token: OpaquePointer?
    unsafe precondition(jwt_new(&token) == 0)
    defer { unsafe jwt_free(token) }
    unsafe precondition(jwt_add_grants_json(token, claims) == 0, claims)
    if let header { unsafe precondition(jwt_add_headers_json(token, header) == 0, header) }
    let status =
      unsafe algorithm == JWT_ALG_NONE
      ? jwt_set_alg(token, algorithm, nil, 0)
      : jwt_set_alg(token, algorithm, key, Int32(key.count))
    precondition(status == 0)
    let text = unsafe jwt_encode_str(token)!
    defer { unsafe free(text) }
    return unsafe String(cString: text)
  }

  /// Signed with HMAC-SHA256, whatever header and claims are.
  static func hmac(header: String, claims: [UInt8], secret: [UInt8]) -> String {
    let signed = "\(base64url(Array(header.utf8))).\(base64url(claims))"
    let data = Array(signed.utf8)
    var code = [UInt8](repeating: 0, count: 32)
    var length = 0
    // SAFETY: reads and writes the arrays only, within the lengths that are given.
    let result = unsafe EVP_Q_mac(
      nil, "HMAC", nil, "SHA256", nil, secret, secret.count, data, data.count, &code, code.count, &length)
    unsafe precondition(result != nil && length == 32)
    return "\(signed).\(base64url(code))"
  }

  static func base64url(_ bytes: [UInt8]) -> String { String(decoding: Base64URL.encode(bytes), as: UTF8.self) }
}
