internal import CSimpLinux
public import SimpCore

/// Seals and opens datagrams with keys derived from a session's secret (wire document, "Datagrams").
///
/// The secret goes through HKDF (RFC 5869, SHA-256, no salt) to a key and an IV for each direction, under the labels
/// "simp c2s key", "simp c2s iv", "simp s2c key" and "simp s2c iv", and to the secret of that direction's next phase
/// under "simp c2s next" and "simp s2c next". The nonce is the IV xor the packet number in its last 8 bytes.
///
/// Of the login's secret nothing is kept; a direction holds the secret of its next phase, from which no earlier key can
/// be had. Everything is wiped when its phase, or this object, goes.
public final class AEADProtection: DatagramProtection {
  /// Number of AES-128-GCM in the login messages.
  public static let aes128GCM: UInt32 = 1
  /// Number of ChaCha20-Poly1305, for machines without AES instructions.
  public static let chaCha20Poly1305: UInt32 = 2

  /// Both suites, the faster one on this machine first: AES where the processor has instructions for it.
  public static let preference: [UInt32] =
    simp_has_aes_instructions() != 0 ? [aes128GCM, chaCha20Poly1305] : [chaCha20Poly1305, aes128GCM]

  static let headerBytes = 16
  static let tagBytes = 16

  private var sealing: Direction
  private var opening: Direction

  /// - Parameters:
  ///   - secret: 32 bytes from the login reply. The caller wipes its own.
  ///   - cipher: `aes128GCM` or `chaCha20Poly1305`.
  ///   - isServer: which of the two directions is ours.
  public convenience init(secret: [UInt8], cipher: UInt32, isServer: Bool) {
    self.init(secret: secret, cipher: cipher, isServer: isServer, onRelease: nil)
  }

  /// - Parameter onRelease: sees each secret after it was wiped.
  init(secret: [UInt8], cipher: UInt32, isServer: Bool, onRelease: SecretBytes.ReleaseObserver?) {
    precondition(secret.count == 32, "a session secret has 32 bytes")
    precondition(AEADProtection.isKnown(cipher), "unknown cipher \(cipher)")
    let first = unsafe SecretBytes(count: secret.count, onRelease: onRelease) { out in
      for index in secret.indices { unsafe out[index] = secret[index] }
    }
    sealing = Direction(
      first, cipher: cipher, name: isServer ? "s2c" : "c2s", isSealing: true, onRelease: onRelease)
    opening = Direction(
      first, cipher: cipher, name: isServer ? "c2s" : "s2c", isSealing: false, onRelease: onRelease)
  }

  /// Whether `init` takes this number.
  public static func isKnown(_ cipher: UInt32) -> Bool { cipher == aes128GCM || cipher == chaCha20Poly1305 }

  public func seal(_ datagram: inout [UInt8], packetNumber: UInt64) {
    sealing.present.seal(&datagram, packetNumber: packetNumber)
  }

  public func open(_ datagram: inout MutableSpan<UInt8>, packetNumber: UInt64, with key: OpeningKey) -> Bool {
    switch key {
    case .former: opening.former?.open(&datagram, packetNumber: packetNumber) ?? false
    case .present: opening.present.open(&datagram, packetNumber: packetNumber)
    case .next: opening.deriveNext().open(&datagram, packetNumber: packetNumber)
    }
  }

  public func changeSealingKey() {
    sealing.change()
    sealing.former = nil
  }

  public func changeOpeningKey() { opening.change() }
  public func forgetFormerKey() { opening.former = nil }

  /// How often keys were derived, the first ones included: for tests.
  var derivations: Int { sealing.derivations + opening.derivations }
}

extension AEADProtection {
  /// The keys of one direction, phase after phase.
  private struct Direction {
    let cipher: UInt32
    let name: String
    let isSealing: Bool
    let onRelease: SecretBytes.ReleaseObserver?
    var former: AEADKey?
    var present: AEADKey
    private var next: AEADKey?
    private var secretOfNext: SecretBytes
    private(set) var derivations = 1

    init(
      _ secret: SecretBytes, cipher: UInt32, name: String, isSealing: Bool, onRelease: SecretBytes.ReleaseObserver?
    ) {
      self.cipher = cipher
      self.name = name
      self.isSealing = isSealing
      self.onRelease = onRelease
      present = AEADKey(secret: secret, cipher: cipher, direction: name, isSealing: isSealing, onRelease: onRelease)
      secretOfNext = HKDF.derive(secret, label: "simp \(name) next", count: 32, onRelease: onRelease)
    }

    mutating func deriveNext() -> AEADKey {
      if let next { return next }
      derivations += 1
      let made = AEADKey(
        secret: secretOfNext, cipher: cipher, direction: name, isSealing: isSealing, onRelease: onRelease)
      next = made
      return made
    }

    mutating func change() {
      former = present
      present = deriveNext()
      next = nil
      secretOfNext = HKDF.derive(secretOfNext, label: "simp \(name) next", count: 32, onRelease: onRelease)
    }
  }
}
