internal import CSimpLinux
public import SimpCore

/// Seals and opens datagrams with keys derived from a session's secret (wire document, "Datagrams").
///
/// The secret goes through HKDF (RFC 5869, SHA-256, no salt) to a key and an IV for each direction, under the labels
/// "simp c2s key", "simp c2s iv", "simp s2c key" and "simp s2c iv". The nonce is the IV xor the packet number in
/// its last 8 bytes. Keys live in OpenSSL's contexts, which are made once and wiped when this object goes.
@safe
public final class AEADProtection: DatagramProtection {
  /// Number of AES-128-GCM in the login messages.
  public static let aes128GCM: UInt32 = 1
  /// Number of ChaCha20-Poly1305, for machines without AES instructions.
  public static let chaCha20Poly1305: UInt32 = 2

  static let headerBytes = 16
  static let tagBytes = 16

  private let sealing: OpaquePointer
  private let opening: OpaquePointer
  private var sealingIV: [UInt8]
  private var openingIV: [UInt8]

  /// - Parameters:
  ///   - secret: 32 bytes from the login reply.
  ///   - cipher: `aes128GCM` or `chaCha20Poly1305`.
  ///   - isServer: which of the two directions is ours.
  public init(secret: [UInt8], cipher: UInt32, isServer: Bool) {
    precondition(secret.count == 32, "a session secret has 32 bytes")
    precondition(AEADProtection.isKnown(cipher), "unknown cipher \(cipher)")
    let ours = isServer ? "s2c" : "c2s"
    let theirs = isServer ? "c2s" : "s2c"
    unsafe sealing = AEADProtection.context(secret, cipher, direction: ours, isSealing: true)
    unsafe opening = AEADProtection.context(secret, cipher, direction: theirs, isSealing: false)
    sealingIV = HKDF.derive(secret: secret, info: Array("simp \(ours) iv".utf8), count: 12)
    openingIV = HKDF.derive(secret: secret, info: Array("simp \(theirs) iv".utf8), count: 12)
  }

  deinit {
    unsafe simp_aead_free(sealing)
    unsafe simp_aead_free(opening)
    HKDF.wipe(&sealingIV)
    HKDF.wipe(&openingIV)
  }

  /// Whether `init` takes this number.
  public static func isKnown(_ cipher: UInt32) -> Bool { cipher == aes128GCM || cipher == chaCha20Poly1305 }

  private static func context(
    _ secret: [UInt8], _ cipher: UInt32, direction: String, isSealing: Bool
  ) -> OpaquePointer {
    let info = Array("simp \(direction) key".utf8)
    var key = HKDF.derive(secret: secret, info: info, count: cipher == aes128GCM ? 16 : 32)
    defer { HKDF.wipe(&key) }
    // SAFETY: the key has the length of its cipher and is read during the call only.
    let made = unsafe simp_aead_new(Int32(cipher), isSealing ? 1 : 0, key)
    unsafe precondition(made != nil, "OpenSSL lacks cipher \(cipher)")
    return unsafe made!
  }

  public func seal(_ datagram: inout [UInt8], packetNumber: UInt64) {
    precondition(datagram.count >= AEADProtection.headerBytes, "a datagram begins with 16 header bytes")
    let textCount = datagram.count - AEADProtection.headerBytes
    for _ in 0..<AEADProtection.tagBytes { datagram.append(0) }
    // SAFETY: header, text and tag lie one behind the other within the array; used during the closure only.
    let done = unsafe datagram.withUnsafeMutableBufferPointer { bytes in
      let start = bytes.baseAddress!
      let text = unsafe start + AEADProtection.headerBytes
      return unsafe withNonce(sealingIV, packetNumber) { nonce in
        unsafe simp_aead_seal(
          sealing, nonce, start, AEADProtection.headerBytes, text, textCount, text + textCount)
      }
    }
    precondition(done == 1, "OpenSSL does not encrypt")
  }

  public func open(_ datagram: inout MutableSpan<UInt8>, packetNumber: UInt64) -> Bool {
    let textCount = datagram.count - AEADProtection.headerBytes - AEADProtection.tagBytes
    guard textCount >= 0 else { return false }
    // SAFETY: as in `seal`; the count was checked.
    return unsafe datagram.withUnsafeMutableBufferPointer { bytes in
      let start = bytes.baseAddress!
      let text = unsafe start + AEADProtection.headerBytes
      return unsafe withNonce(openingIV, packetNumber) { nonce in
        unsafe simp_aead_open(
          opening, nonce, start, AEADProtection.headerBytes, text, textCount, text + textCount)
      } == 1
    }
  }

  /// The IV xor four zero bytes and the packet number, big endian; nothing is allocated.
  private func withNonce(
    _ iv: [UInt8], _ packetNumber: UInt64, _ body: (UnsafePointer<UInt8>) -> Int32
  ) -> Int32 {
    unsafe withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 12) { nonce in
      for index in 0..<12 {
        let shift = UInt64(11 - index) * 8
        unsafe nonce[index] = iv[index] ^ (index < 4 ? 0 : UInt8(truncatingIfNeeded: packetNumber >> shift))
      }
      return unsafe body(UnsafePointer(nonce.baseAddress!))
    }
  }
}
