internal import CSimpKeys

/// Reading of JSON Web Keys (RFC 7517, RFC 7518 section 6).
enum JSONWebKeys {
  // BOUND: more keys than this is some other file.
  private static let maximumKeys = 256

  static func read(_ contents: [UInt8], path: String) throws(TokenError) -> KeySet {
    guard let top = JSON(contents)?.object else {
      throw TokenError(.badKey, "\(path) is not JSON, or says something twice; a JSON Web Key Set was expected")
    }
    let list = top["kty"] == nil ? top["keys"]?.array : [.object(top)]
    guard let list, list.count <= maximumKeys else {
      throw TokenError(.badKey, "\(path) is no JSON Web Key Set: it needs \"keys\", a list of at most \(maximumKeys)")
    }
    var keys: [TokenKey] = []
    var passedOver: [String] = []
    for (index, entry) in list.enumerated() {
      let place = "\(path): key \(index + 1)"
      guard let members = entry.object else { throw TokenError(.badKey, "\(place) is no JSON object") }
      switch try read(members, place: place) {
      case .key(let key): keys.append(key)
      case .foreign(let reason): passedOver.append("\(place): \(reason)")
      }
    }
    guard !keys.isEmpty else {
      throw TokenError(.badKey, "\(path) has no key for HS256, RS256 or ES256")
    }
    let names = keys.compactMap(\.name)
    guard Set(names).count == names.count else { throw TokenError(.badKey, "\(path): two keys have the same kid") }
    guard keys.count == 1 || names.count == keys.count else {
      throw TokenError(.badKey, "\(path): of several keys each needs a kid")
    }
    return KeySet(keys: keys, passedOver: passedOver)
  }

  private enum Entry {
    case key(TokenKey)
    /// Not for us, and no fault: RFC 7517, section 5 has such keys ignored.
    case foreign(String)
  }

  private static func read(_ members: [String: JSON], place: String) throws(TokenError) -> Entry {
    let kind = members["kty"]?.string ?? ""
    let implied: TokenAlgorithm
    switch kind {
    case "oct": implied = .hs256
    case "RSA": implied = .rs256
    case "EC" where members["crv"]?.string == "P-256": implied = .es256
    default: return .foreign("kty \(kind.prefix(16)) \(members["crv"]?.string?.prefix(16) ?? "") is not used here")
    }
    if let use = members["use"], use != .string("sig") { return .foreign("its use is not sig") }
    if let algorithm = members["alg"] {
      guard let name = algorithm.string else { throw TokenError(.badKey, "\(place): alg is no text") }
      guard name == implied.rawValue else {
        // A key is for one algorithm: an RSA key that says HS256 is a mistake, one for PS256 merely not ours.
        guard TokenAlgorithm(rawValue: name) == nil else {
          throw TokenError(.badKey, "\(place): a key of kty \(kind) cannot be for \(name)")
        }
        return .foreign("it is for \(name.prefix(16))")
      }
    }
    let name = try self.name(members["kid"], place: place)
    switch implied {
    case .hs256:
      guard var secret = number("k", of: members) else { throw TokenError(.badKey, "\(place): k is missing or broken") }
      defer { secret.wipe() }
      guard secret.count >= TokenKey.minimumBytes else {
        throw TokenError(
          .badKey, "\(place): the key has \(secret.count) bytes, and needs at least \(TokenKey.minimumBytes)")
      }
      return .key(TokenKey(secret: secret, name: name))
    case .rs256:
      let numbers = try KeyNumbers(["n", "e", "d", "p", "q", "dp", "dq", "qi"], of: members, place: place)
      return .key(try key(.rs256, name, numbers, place: place))
    case .es256:
      let numbers = try KeyNumbers(["x", "y", "d"], of: members, place: place)
      return .key(try key(.es256, name, numbers, place: place))
    }
  }

  private static func name(_ value: JSON?, place: String) throws(TokenError) -> String? {
    guard let value else { return nil }
    guard let name = value.string, (1...TokenKey.maximumNameBytes).contains(name.utf8.count) else {
      throw TokenError(.badKey, "\(place): kid is a text of 1 to \(TokenKey.maximumNameBytes) bytes")
    }
    return name
  }

  /// SAFETY (below): OpenSSL writes PEM, with a zero behind it, into rooms of the size it asks for.
  private static func key(
    _ algorithm: TokenAlgorithm, _ name: String?, _ numbers: KeyNumbers, place: String
  ) throws(TokenError) -> TokenKey {
    var open = [UInt8](repeating: 0, count: Int(SIMP_KEY_PEM_BYTES))
    var secret = open
    defer { secret.wipe() }
    let verdict = unsafe open.withUnsafeMutableBytes { open in
      unsafe secret.withUnsafeMutableBytes { secret in
        let encode = unsafe algorithm == .rs256 ? simp_key_rsa_pem : simp_key_p256_pem
        return unsafe encode(
          numbers.handle, open.assumingMemoryBound(to: CChar.self).baseAddress,
          secret.assumingMemoryBound(to: CChar.self).baseAddress)
      }
    }
    switch verdict {
    case Int32(SIMP_KEY_GOOD): break
    case Int32(SIMP_KEY_WRONG_SIZE):
      throw TokenError(.badKey, "\(place): an RSA key has 2048 to 8192 bits here, and an odd exponent from 3 on")
    default: throw TokenError(.badKey, "\(place) is broken: its numbers are no key of this kind")
    }
    return TokenKey(
      algorithm: algorithm, name: name, checking: pem(open), signing: secret[0] == 0 ? nil : pem(secret))
  }

  private static func pem(_ room: [UInt8]) -> SecretBytes {
    var text = Array(room.prefix { $0 != 0 })
    defer { text.wipe() }
    return SecretBytes(text)
  }

  static func number(_ name: String, of members: [String: JSON]) -> [UInt8]? {
    members[name]?.string.flatMap { Base64URL.decode($0.utf8) }
  }
}
