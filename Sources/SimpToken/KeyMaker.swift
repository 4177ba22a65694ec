internal import CSimpKeys
import Glibc

/// Makes keys and puts them into key set files.
public enum KeyMaker {
  /// What came of it.
  public struct Made: Sendable {
    public let key: TokenKey
    /// The file was not there before.
    public let isNewFile: Bool
    /// How many keys the file has now.
    public let count: Int
  }

  /// Bits of a new RSA key: as strong as 128 bits (NIST SP 800-57).
  static let rsaBits: UInt32 = 3072

  /// Makes a key and adds it to the JSON Web Key Set at `path`, which is made if it is not there. The file has mode 0600
  /// afterwards; it is changed in one step, so that a crash leaves the old set or the new one. What else stands in it
  /// stays.
  ///
  /// - Parameters:
  ///   - name: `kid`, 1 to 128 bytes without control characters.
  ///   - replaces: whether a key of that name that is there already makes room for the new one.
  /// - Throws: `keyExists` when the key is there and is not to be replaced; `badKey` when the file is no key set, or
  ///   cannot be written, or the name is none.
  public static func add(
    _ algorithm: TokenAlgorithm, name: String, path: String, replaces: Bool
  ) throws(TokenError) -> Made {
    guard (1...TokenKey.maximumNameBytes).contains(name.utf8.count), name.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F })
    else { throw TokenError(.badKey, "a kid is a text of 1 to \(TokenKey.maximumNameBytes) bytes") }
    let isNewFile = unsafe access(path, F_OK) != 0
    var top: [String: JSON] = [:]
    var keys: [JSON] = []
    if !isNewFile {
      // A set that is broken already is not to be made worse.
      let present = try KeySet.load(path: path)
      let contents = try KeyFile.read(path: path).contents
      guard let read = JSON(contents)?.object, let list = read["keys"]?.array else {
        throw TokenError(
          .badKey, "\(path) holds one key, and no set that others can be added to; name another file with --keys")
      }
      guard replaces || !present.keys.contains(where: { $0.name == name }) else {
        throw TokenError(.keyExists, "\(path) has a key \(name) already; --replace makes a new one in its place")
      }
      (top, keys) = (read, list.filter { $0.object?["kid"] != .string(name) })
    }
    var members = try make(algorithm)
    members["kid"] = .string(name)
    members["alg"] = .string(algorithm.rawValue)
    members["use"] = .string("sig")
    keys.append(.object(members))
    top["keys"] = .array(keys)
    let set = try JSONWebKeys.read([UInt8](JSON.object(top).text.utf8), path: path)
    guard let key = set.keys.last else { preconditionFailure("a set that a key was added to has one") }
    // A key a line, for those who look into it or compare versions.
    let lines = keys.map { "    \($0.text)" }.joined(separator: ",\n")
    top["keys"] = nil
    let rest = top.sorted { $0.key < $1.key }.map { ",\n  \(JSON.string($0.key).text): \($0.value.text)" }.joined()
    var text = [UInt8]("{\n  \"keys\": [\n\(lines)\n  ]\(rest)\n}".utf8)
    defer { text.wipe() }
    try KeyFile.write(path: path, contents: text, isNew: isNewFile)
    return Made(key: key, isNewFile: isNewFile, count: set.keys.count)
  }

  private static func make(_ algorithm: TokenAlgorithm) throws(TokenError) -> [String: JSON] {
    let numbers = try KeyNumbers()
    let names: [String]
    var members: [String: JSON] = [:]
    switch algorithm {
    case .hs256:
      var secret = TokenKey.randomBytes(TokenKey.minimumBytes)
      defer { secret.wipe() }
      return ["kty": .string("oct"), "k": .string(String(decoding: Base64URL.encode(secret), as: UTF8.self))]
    case .rs256:
      members["kty"] = .string("RSA")
      names = ["n", "e", "d", "p", "q", "dp", "dq", "qi"]
      guard unsafe simp_key_rsa_generate(rsaBits, numbers.handle) == 1 else { throw failed }
    case .es256:
      members["kty"] = .string("EC")
      members["crv"] = .string("P-256")
      names = ["x", "y", "d"]
      guard unsafe simp_key_p256_generate(numbers.handle) == 1 else { throw failed }
    }
    for name in names {
      guard var bytes = numbers[name] else { throw failed }
      defer { bytes.wipe() }
      members[name] = .string(String(decoding: Base64URL.encode(bytes), as: UTF8.self))
    }
    return members
  }

  private static let failed = TokenError(.failed, "the key could not be made: OpenSSL failed")
}
