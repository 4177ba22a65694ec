import SimpCore

/// Stands in for AES-GCM: hides nothing from one who knows the secret, but a turned bit, a wrong direction and another
/// session's secret are found as surely. It also tells which numbers are sealed under which key.
final class ChecksumProtection: DatagramProtection {
  private var sealKey: UInt64
  private var openKey: UInt64
  private var formerKey: UInt64?
  private var lastSealed: UInt64?
  private let onSeal: (Nonce, _ plaintext: [UInt8], _ hasReceipt: Bool) -> Void

  /// Key and packet number of a sealed datagram: never the same twice, whoever seals.
  struct Nonce: Hashable {
    var key: UInt64
    var number: UInt64
  }

  init(
    secret: [UInt8], isServer: Bool, onSeal: @escaping (Nonce, _ plaintext: [UInt8], _ hasReceipt: Bool) -> Void
  ) {
    self.onSeal = onSeal
    let base = secret.reduce(UInt64(0x1234_5678_9ABC_DEF1)) { Self.mix($0 ^ UInt64($1)) }
    let keys = (Self.mix(base ^ 1), Self.mix(base ^ 2))
    (sealKey, openKey) = isServer ? keys : (keys.1, keys.0)
  }

  func seal(_ datagram: inout [UInt8], packetNumber: UInt64) {
    precondition(lastSealed.map { packetNumber > $0 } ?? true, "a packet number is used twice under a key")
    lastSealed = packetNumber
    onSeal(Nonce(key: sealKey, number: packetNumber), datagram, Self.hasReceipt(datagram))
    var state = sealKey
    for index in 0..<datagram.count {
      state = Self.mix(state ^ UInt64(datagram[index]) ^ UInt64(index) << 8)
      if index >= 16 { datagram[index] ^= Self.pad(sealKey, packetNumber, index) }
    }
    for shift in 0..<8 { datagram.append(UInt8(truncatingIfNeeded: state >> UInt64(8 * shift))) }
    state = Self.mix(state ^ sealKey)
    for shift in 0..<8 { datagram.append(UInt8(truncatingIfNeeded: state >> UInt64(8 * shift))) }
  }

  func changeSealingKey() { sealKey = Self.next(sealKey) }

  func changeOpeningKey() {
    formerKey = openKey
    openKey = Self.next(openKey)
  }

  func forgetFormerKey() { formerKey = nil }

  func open(_ datagram: inout MutableSpan<UInt8>, packetNumber: UInt64, with key: OpeningKey) -> Bool {
    switch key {
    case .former: formerKey.map { open(&datagram, packetNumber, $0) } ?? false
    case .present: open(&datagram, packetNumber, openKey)
    case .next: open(&datagram, packetNumber, Self.next(openKey))
    }
  }

  private func open(_ datagram: inout MutableSpan<UInt8>, _ packetNumber: UInt64, _ openKey: UInt64) -> Bool {
    guard datagram.count >= 32 else { return false }
    let end = datagram.count - 16
    var state = openKey
    for index in 0..<end {
      if index >= 16 { datagram[index] ^= Self.pad(openKey, packetNumber, index) }
      state = Self.mix(state ^ UInt64(datagram[index]) ^ UInt64(index) << 8)
    }
    let second = Self.mix(state ^ openKey)
    for index in 0..<8 {
      guard datagram[end + index] == UInt8(truncatingIfNeeded: state >> UInt64(8 * index)) else { return false }
      guard datagram[end + 8 + index] == UInt8(truncatingIfNeeded: second >> UInt64(8 * index)) else { return false }
    }
    return true
  }

  /// Whether one of its packets is a RECEIPT, told from the bytes.
  private static func hasReceipt(_ datagram: [UInt8]) -> Bool {
    var offset = 16
    while offset + 16 <= datagram.count {
      if datagram[offset + 8] == 0, datagram[offset + 9] == 3 { return true }
      offset += max(16, datagram[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) })
    }
    return false
  }

  private static func next(_ key: UInt64) -> UInt64 { mix(key ^ 0x6E65_7874) }

  private static func pad(_ key: UInt64, _ number: UInt64, _ index: Int) -> UInt8 {
    UInt8(truncatingIfNeeded: (key ^ number &* 0x9E37_79B9_7F4A_7C15) >> UInt64(index % 8 * 8))
  }

  private static func mix(_ value: UInt64) -> UInt64 {
    var mixed = value
    mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
    return mixed ^ mixed >> 29
  }
}
