/// A token taken apart, its signature not checked yet: only what says how to check it may be believed, and that only as
/// a question to the keys that are there.
struct TokenParts {
  /// `alg` of the header.
  let algorithm: String
  /// `kid` of the header.
  let keyName: String?
  let claims: [String: JSON]

  /// - Throws: `malformed` for anything but three parts of base64url, the first two of them JSON objects without a name
  ///   that stands twice; also for a header that asks for extensions (RFC 7515, 4.1.11).
  init(_ token: String) throws(TokenError) {
    // Before anything is made of it: libjwt also takes the plain alphabet, and works on a C string that a zero byte
    // would cut.
    guard token.utf8.count <= Tokens.maximumBytes else { throw Self.notAToken }
    let parts = token.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count == 3, parts.allSatisfy({ !$0.isEmpty && $0.allSatisfy(Base64URL.isDigit) }),
      let head = Base64URL.decode(parts[0]), let body = Base64URL.decode(parts[1]), Base64URL.decode(parts[2]) != nil
    else { throw Self.notAToken }
    guard let header = JSON(head)?.object, let claims = JSON(body)?.object else {
      throw TokenError(.malformed, "not a token: its parts are no JSON objects, or say something twice")
    }
    guard header["crit"] == nil else {
      throw TokenError(.malformed, "the token's header asks for extensions (crit) that are not known here")
    }
    guard let algorithm = header["alg"]?.string else {
      throw TokenError(.malformed, "the token's header does not say how it is signed (alg)")
    }
    if let name = header["kid"], name.string == nil {
      throw TokenError(.malformed, "the token's kid is no text")
    }
    self.algorithm = algorithm
    self.claims = claims
    keyName = header["kid"]?.string
  }

  private static let notAToken = TokenError(.malformed, "not a token: three parts of base64url with dots between")
}
