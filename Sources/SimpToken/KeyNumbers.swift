internal import CSimpKeys

/// The numbers of an RSA or P-256 key by their names in a JSON Web Key; overwritten at the end.
@safe
final class KeyNumbers {
  let handle: OpaquePointer

  // SAFETY (below): `handle` is made here and freed in `deinit` alone; names are C strings for the length of a call.

  init() throws(TokenError) {
    guard let made = unsafe simp_key_numbers_new() else {
      throw TokenError(.failed, "a key could not be read; is there memory left?")
    }
    unsafe handle = made
  }

  deinit { unsafe simp_key_numbers_free(handle) }

  /// Takes those of `names` that a JSON Web Key has.
  ///
  /// - Throws: `badKey` for one that is no number in base64url, or too long.
  convenience init(_ names: [String], of members: [String: JSON], place: String) throws(TokenError) {
    try self.init()
    for name in names where members[name] != nil {
      guard var bytes = JSONWebKeys.number(name, of: members) else { throw Self.broken(name, place) }
      defer { bytes.wipe() }
      guard unsafe simp_key_set(handle, name, bytes, bytes.count) == 1 else { throw Self.broken(name, place) }
    }
  }

  /// A number; nil when it is absent. Whoever takes it wipes it.
  subscript(name: String) -> [UInt8]? {
    var room = [UInt8](repeating: 0, count: Int(SIMP_KEY_NUMBER_BYTES))
    defer { room.wipe() }
    let length = unsafe simp_key_get(handle, name, &room)
    return length > 0 ? Array(room.prefix(length)) : nil
  }

  private static func broken(_ name: String, _ place: String) -> TokenError {
    TokenError(.badKey, "\(place): \(name) is no number in base64url")
  }
}
