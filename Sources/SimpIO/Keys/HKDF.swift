internal import CSimpLinux

/// Key derivation of RFC 5869 with SHA-256: extract and expand.
enum HKDF {
  /// Writes `count` bytes to `out`.
  static func derive(
    secret: UnsafePointer<UInt8>, secretCount: Int, salt: [UInt8] = [], info: [UInt8],
    out: UnsafeMutablePointer<UInt8>, count: Int
  ) {
    precondition(count > 0 && count <= 255 * 32, "HKDF gives 1 to 8160 bytes")
    // SAFETY: the pointers are used during the call only; the caller vouches for the counts.
    let done = unsafe simp_hkdf_sha256(
      salt, salt.count, secret, secretCount, info, info.count, out, count)
    precondition(done == 1, "OpenSSL derives no keys")
  }

  /// A secret from a secret, under a label in ASCII.
  static func derive(
    _ secret: SecretBytes, label: String, count: Int, onRelease: SecretBytes.ReleaseObserver? = nil
  ) -> SecretBytes {
    unsafe SecretBytes(count: count, onRelease: onRelease) { out in
      unsafe secret.withBytes { bytes in
        // SAFETY: both have the counts given, and outlive the call.
        unsafe derive(
          secret: bytes, secretCount: secret.count, info: Array(label.utf8), out: out, count: count)
      }
    }
  }
}
