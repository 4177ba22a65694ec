/// Hexadecimal text of key files, as bytes, so that no secret passes through a `String` that cannot be wiped.
enum Hex {
  static func encode(_ bytes: [UInt8]) -> [UInt8] {
    let digits = [UInt8]("0123456789abcdef".utf8)
    var text: [UInt8] = []
    text.reserveCapacity(bytes.count * 2)
    for byte in bytes {
      text.append(digits[Int(byte >> 4)])
      text.append(digits[Int(byte & 15)])
    }
    return text
  }

  /// - Returns: nil when the text, without white space at its ends, is not pairs of hexadecimal digits.
  static func decode(_ text: [UInt8]) -> [UInt8]? {
    func isSpace(_ byte: UInt8) -> Bool { byte == 32 || (9...13).contains(byte) }
    var digits = text[...]
    while let first = digits.first, isSpace(first) { digits.removeFirst() }
    while let last = digits.last, isSpace(last) { digits.removeLast() }
    guard !digits.isEmpty, digits.count % 2 == 0 else { return nil }

    var bytes: [UInt8] = []
    bytes.reserveCapacity(digits.count / 2)
    var high: UInt8?
    for digit in digits {
      guard let value = value(of: digit) else {
        bytes.wipe()
        return nil
      }
      if let first = high {
        bytes.append(first << 4 | value)
        high = nil
      } else {
        high = value
      }
    }
    return bytes
  }

  static func value(of digit: UInt8) -> UInt8? {
    switch digit {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}
