import Glibc

/// A secret that signs and checks tokens with HS256. The algorithm belongs to the key; nothing in a token changes it.
///
/// A value to pass around freely: copies share one buffer, which is overwritten when the last copy goes.
public struct TokenKey: Sendable {
  /// Secrets shorter than this are refused: RFC 7518, 3.2 wants a key at least as long as the hash.
  public static let minimumBytes = 32

  private let storage: Storage

  /// - Parameter secret: at least `minimumBytes` random bytes.
  public init(secret: [UInt8]) {
    precondition(secret.count >= Self.minimumBytes, "a signing key needs at least \(Self.minimumBytes) bytes")
    storage = Storage(secret)
  }

  /// Reads a key file: the secret as hexadecimal text, white space around it allowed.
  ///
  /// - Throws: `badKey` when the file is missing, is no regular file, is open to other users (any of mode 077), or does
  ///   not hold 32 to 128 bytes in hexadecimal.
  public static func load(path: String) throws(TokenError) -> TokenKey {
    var text = try KeyFile.read(path: path)
    defer { text.wipe() }
    guard var secret = Hex.decode(text) else {
      throw TokenError(.badKey, "\(path) holds no signing key (64 hexadecimal digits); move it away to have one made")
    }
    defer { secret.wipe() }
    guard secret.count >= minimumBytes else {
      throw TokenError(.badKey, "\(path): the key has \(secret.count) bytes, and needs at least \(minimumBytes)")
    }
    return TokenKey(secret: secret)
  }

  /// Makes a key of 32 random bytes and writes it to a new file with mode 0600, synced to the disk together with its
  /// directory. A crash leaves either no file or a whole one.
  ///
  /// - Throws: `keyExists` when there is a file already, `badKey` when it cannot be written.
  @discardableResult
  public static func make(path: String) throws(TokenError) -> TokenKey {
    var generator = SystemRandomNumberGenerator()
    var secret = (0..<minimumBytes).map { _ in UInt8.random(in: 0...255, using: &generator) }
    defer { secret.wipe() }
    var text = Hex.encode(secret)
    defer { text.wipe() }
    try KeyFile.create(path: path, contents: text)
    return TokenKey(secret: secret)
  }

  func withBytes<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
    unsafe body(UnsafeBufferPointer(storage.bytes))
  }

  /// Owns the secret outside of any array, so that no copy-on-write leaves a second one behind.
  ///
  /// `@unchecked Sendable`: the bytes are written in `init` and `deinit` only, where there is one owner.
  @safe
  private final class Storage: @unchecked Sendable {
    let bytes: UnsafeMutableBufferPointer<UInt8>

    init(_ secret: [UInt8]) {
      // SAFETY: allocated here, initialised whole, freed in `deinit` alone.
      unsafe bytes = .allocate(capacity: secret.count)
      _ = unsafe bytes.initialize(from: secret)
    }

    deinit {
      if let start = unsafe bytes.baseAddress { unsafe explicit_bzero(start, bytes.count) }
      unsafe bytes.deallocate()
    }
  }
}

extension TokenKey: CustomStringConvertible {
  /// Tells nothing about the secret.
  public var description: String { "TokenKey" }
}

extension [UInt8] {
  /// Overwrites the contents in a way that the optimiser keeps.
  mutating func wipe() {
    // SAFETY: the buffer is the array's own, for the length of the call.
    unsafe withUnsafeMutableBytes { buffer in
      if let start = buffer.baseAddress { unsafe explicit_bzero(start, buffer.count) }
    }
  }
}
