internal import CSimpLinux

/// One key of one direction with its IV, ready for use. The key itself lives in OpenSSL's context only, which wipes it
/// when it goes.
@safe
final class AEADKey {
  private let context: OpaquePointer
  private let iv: SecretBytes

  /// - Parameters:
  ///   - secret: of the key phase.
  ///   - direction: "c2s" or "s2c".
  init(
    secret: SecretBytes, cipher: UInt32, direction: String, isSealing: Bool, onRelease: SecretBytes.ReleaseObserver?
  ) {
    let key = HKDF.derive(
      secret, label: "simp \(direction) key", count: cipher == AEADProtection.aes128GCM ? 16 : 32,
      onRelease: onRelease)
    // SAFETY: the key has the length of its cipher and is read during the call only.
    let made = unsafe key.withBytes { bytes in unsafe simp_aead_new(Int32(cipher), isSealing ? 1 : 0, bytes) }
    unsafe precondition(made != nil, "OpenSSL lacks cipher \(cipher)")
    unsafe context = made!
    iv = HKDF.derive(secret, label: "simp \(direction) iv", count: 12, onRelease: onRelease)
  }

  deinit { unsafe simp_aead_free(context) }

  func seal(_ datagram: inout [UInt8], packetNumber: UInt64) {
    precondition(datagram.count >= AEADProtection.headerBytes, "a datagram begins with 16 header bytes")
    let textCount = datagram.count - AEADProtection.headerBytes
    for _ in 0..<AEADProtection.tagBytes { datagram.append(0) }
    // SAFETY: header, text and tag lie one behind the other within the array; used during the closure only.
    let done = unsafe datagram.withUnsafeMutableBufferPointer { bytes in
      let start = bytes.baseAddress!
      let text = unsafe start + AEADProtection.headerBytes
      return unsafe withNonce(packetNumber) { nonce in
        unsafe simp_aead_seal(
          context, nonce, start, AEADProtection.headerBytes, text, textCount, text + textCount)
      }
    }
    precondition(done == 1, "OpenSSL does not encrypt")
  }

  func open(_ datagram: inout MutableSpan<UInt8>, packetNumber: UInt64) -> Bool {
    let textCount = datagram.count - AEADProtection.headerBytes - AEADProtection.tagBytes
    guard textCount >= 0 else { return false }
    // SAFETY: as in `seal`; the count was checked.
    return unsafe datagram.withUnsafeMutableBufferPointer { bytes in
      let start = bytes.baseAddress!
      let text = unsafe start + AEADProtection.headerBytes
      return unsafe withNonce(packetNumber) { nonce in
        unsafe simp_aead_open(
          context, nonce, start, AEADProtection.headerBytes, text, textCount, text + textCount)
      } == 1
    }
  }

  /// The IV xor four zero bytes and the packet number, big endian; nothing is allocated.
  private func withNonce(_ packetNumber: UInt64, _ body: (UnsafePointer<UInt8>) -> Int32) -> Int32 {
    unsafe withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 12) { nonce in
      unsafe iv.withBytes { iv in
        for index in 0..<12 {
          let shift = UInt64(11 - index) * 8
          unsafe nonce[index] = iv[index] ^ (index < 4 ? 0 : UInt8(truncatingIfNeeded: packetNumber >> shift))
        }
      }
      return unsafe body(UnsafePointer(nonce.baseAddress!))
    }
  }
}
