/// A key that checks tokens and, if it has its secret half, makes them. The algorithm belongs to the key; nothing in a
/// token changes it.
///
/// A value to pass around freely: copies share one buffer, which is overwritten when the last copy goes.
public struct TokenKey: Sendable {
  /// Secrets shorter than this are refused: RFC 7518, 3.2 wants a key at least as long as the hash.
  public static let minimumBytes = 32
  /// Longest `kid`, in bytes.
  public static let maximumNameBytes = 128

  public let algorithm: TokenAlgorithm
  /// `kid`: which of several keys this is. nil for a key that is the only one.
  public let name: String?

  /// What libjwt takes to check a signature: the secret itself, or PEM of the public key.
  let checking: SecretBytes
  /// What it takes to make one: the secret itself, or PEM of the private key; nil for a public key.
  let signing: SecretBytes?

  init(algorithm: TokenAlgorithm, name: String?, checking: SecretBytes, signing: SecretBytes?) {
    self.algorithm = algorithm
    self.name = name
    self.checking = checking
    self.signing = signing
  }

  /// A key for HS256.
  ///
  /// - Parameters:
  ///   - secret: at least `minimumBytes` random bytes.
  ///   - name: `kid`.
  public init(secret: [UInt8], name: String? = nil) {
    precondition(secret.count >= Self.minimumBytes, "a signing key needs at least \(Self.minimumBytes) bytes")
    let secret = SecretBytes(secret)
    self.init(algorithm: .hs256, name: name, checking: secret, signing: secret)
  }

  /// Whether it can make tokens.
  public var canSign: Bool { signing != nil }

  /// Reads the key that signs from a key file; `KeySet.load` says what such a file holds.
  ///
  /// - Parameter name: which one, where the file has several that can sign; nil: the last of them.
  /// - Throws: `badKey` when the file is not good, or has no such key.
  public static func load(path: String, name: String? = nil) throws(TokenError) -> TokenKey {
    try KeySet.load(path: path).signingKey(name, path: path)
  }

  /// Makes a key of 32 random bytes and writes it to a new file with mode 0600, synced to the disk together with its
  /// directory. A crash leaves either no file or a whole one.
  ///
  /// - Throws: `keyExists` when there is a file already, `badKey` when it cannot be written.
  @discardableResult
  public static func make(path: String) throws(TokenError) -> TokenKey {
    var secret = randomBytes(minimumBytes)
    defer { secret.wipe() }
    var text = Hex.encode(secret)
    defer { text.wipe() }
    try KeyFile.write(path: path, contents: text, isNew: true)
    return TokenKey(secret: secret)
  }

  static func randomBytes(_ count: Int) -> [UInt8] {
    var generator = SystemRandomNumberGenerator()
    return (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
  }
}

extension TokenKey: CustomStringConvertible {
  /// Tells nothing about the secret.
  public var description: String { "TokenKey" }
}
