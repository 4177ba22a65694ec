/// The keys whose tokens are taken, each with its own algorithm.
public struct KeySet: Sendable {
  /// In the order of the file; each `name` stands once, and a key without one stands alone.
  public let keys: [TokenKey]
  /// Keys of the file that are for something else (encryption, another algorithm) and were passed over: a sentence for
  /// each.
  public let passedOver: [String]
  private let named: [String: TokenKey]

  /// A set of one key, whose tokens need no `kid`.
  public init(_ key: TokenKey) {
    self.init(keys: [key], passedOver: [])
  }

  init(keys: [TokenKey], passedOver: [String]) {
    self.keys = keys
    self.passedOver = passedOver
    named = Dictionary(uniqueKeysWithValues: keys.compactMap { key in key.name.map { ($0, key) } })
  }

  /// The key for a token. It is looked up here and nowhere else: no `kid` is ever a path or an address.
  ///
  /// - Parameter name: the token's `kid`; without one the set must have one key.
  func key(for name: String?) throws(TokenError) -> TokenKey {
    guard let name else {
      guard keys.count == 1, let key = keys.first else {
        throw TokenError(.unknownKey, "the token does not say by which key (kid) it is signed, and there are several")
      }
      return key
    }
    guard let key = named[name] else {
      throw TokenError(.unknownKey, "the token is signed with a key (kid) that is not known here")
    }
    return key
  }

  /// Reads a key file. It holds either one secret for HS256 in hexadecimal, white space around it allowed, or a JSON Web
  /// Key Set (RFC 7517, section 5), or one JSON Web Key.
  ///
  /// Of a JSON Web Key `kty` (`oct`, `RSA`, `EC` with `crv` P-256), its numbers, `kid`, `alg` and `use` count; without
  /// `alg` the algorithm follows from `kty`. Keys for encryption or other algorithms are passed over. Several keys need a
  /// `kid` each. A file with a secret in it must not be open to other users; one of public keys may be.
  ///
  /// - Throws: `badKey` when the file is missing or no such file, when a key is broken or too weak (RSA under 2048 bits,
  ///   secrets under 32 bytes), when a `kid` stands twice, or when no key is left.
  public static func load(path: String) throws(TokenError) -> KeySet {
    let file = try KeyFile.read(path: path)
    var contents = file.contents
    defer { contents.wipe() }
    guard contents.first(where: { $0 > 0x20 }) == UInt8(ascii: "{") else {
      try file.checkSecret()
      return KeySet(try secretKey(contents, path: path))
    }
    let set = try JSONWebKeys.read(contents, path: path)
    if set.keys.contains(where: \.canSign) { try file.checkSecret() } else { try file.checkPublic() }
    return set
  }

  /// The key to make tokens with.
  ///
  /// - Parameters:
  ///   - name: its `kid`; nil: the last that can sign, which is the one that was added last.
  ///   - path: for the message.
  func signingKey(_ name: String?, path: String) throws(TokenError) -> TokenKey {
    let able = keys.filter(\.canSign)
    guard !able.isEmpty else { throw TokenError(.badKey, "\(path) holds public keys only, which make no tokens") }
    guard let key = able.last(where: { name == nil || $0.name == name }) else {
      let names = able.compactMap(\.name).joined(separator: ", ")
      throw TokenError(.badKey, "\(path) has no signing key of that name (kid); it has: \(names)")
    }
    return key
  }

  private static func secretKey(_ text: [UInt8], path: String) throws(TokenError) -> TokenKey {
    guard text.count <= 257, var secret = Hex.decode(text) else {
      throw TokenError(
        .badKey,
        "\(path) holds no signing key (64 hexadecimal digits, or a JSON Web Key Set); move it away to have one made")
    }
    defer { secret.wipe() }
    guard secret.count >= TokenKey.minimumBytes else {
      throw TokenError(
        .badKey, "\(path): the key has \(secret.count) bytes, and needs at least \(TokenKey.minimumBytes)")
    }
    return TokenKey(secret: secret)
  }
}
