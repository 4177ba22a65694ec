/// Base64 with the alphabet of URLs and without padding (RFC 4648, section 5; RFC 7515, section 2).
enum Base64URL {
  private static let alphabet = [UInt8]("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

  static func encode(_ bytes: [UInt8]) -> [UInt8] {
    var text: [UInt8] = []
    text.reserveCapacity((bytes.count * 4 + 2) / 3)
    var value: UInt32 = 0
    var bits: UInt32 = 0
    for byte in bytes {
      value = value << 8 | UInt32(byte)
      bits += 8
      while bits >= 6 {
        bits -= 6
        text.append(alphabet[Int(value >> bits & 63)])
      }
    }
    if bits > 0 { text.append(alphabet[Int(value << (6 - bits) & 63)]) }
    return text
  }

  /// - Returns: nil when the text is none, is padded, or ends in bits that are not 0.
  static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
    var bytes: [UInt8] = []
    var value: UInt32 = 0
    var bits: UInt32 = 0
    for letter in text {
      guard let digit = digit(of: letter) else { return nil }
      value = value << 6 | UInt32(digit)
      bits += 6
      if bits >= 8 {
        bits -= 8
        bytes.append(UInt8(truncatingIfNeeded: value >> bits))
        value &= (1 << bits) - 1
      }
    }
    // One text for each value: a signature with other trailing bits would be a second token that is as good.
    guard bits < 6, value == 0 else { return nil }
    return bytes
  }

  static func isDigit(_ letter: UInt8) -> Bool { digit(of: letter) != nil }

  private static func digit(of letter: UInt8) -> UInt8? {
    switch letter {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): letter - UInt8(ascii: "A")
    case UInt8(ascii: "a")...UInt8(ascii: "z"): letter - UInt8(ascii: "a") + 26
    case UInt8(ascii: "0")...UInt8(ascii: "9"): letter - UInt8(ascii: "0") + 52
    case UInt8(ascii: "-"): 62
    case UInt8(ascii: "_"): 63
    default: nil
    }
  }
}
