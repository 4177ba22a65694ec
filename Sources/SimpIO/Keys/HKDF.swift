internal import CSimpLinux

/// Key derivation of RFC 5869 with SHA-256.
enum HKDF {
  /// Extract and expand. The result is the caller's to wipe.
  static func derive(secret: [UInt8], salt: [UInt8] = [], info: [UInt8], count: Int) -> [UInt8] {
    precondition(count > 0 && count <= 255 * 32, "HKDF gives 1 to 8160 bytes")
    var out = [UInt8](repeating: 0, count: count)
    // SAFETY: the pointers are used during the call only, with the counts of the arrays they come from.
    let done = unsafe simp_hkdf_sha256(
      salt, salt.count, secret, secret.count, info, info.count, &out, count)
    precondition(done == 1, "OpenSSL derives no keys")
    return out
  }

  /// Overwrites the bytes before they are given back to the allocator. Meant for arrays that were never copied.
  static func wipe(_ bytes: inout [UInt8]) {
    // SAFETY: within the array's own storage.
    unsafe bytes.withUnsafeMutableBytes { buffer in unsafe simp_wipe(buffer.baseAddress, buffer.count) }
    bytes = []
  }
}
