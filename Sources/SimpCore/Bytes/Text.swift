/// The rules of strings and names on the wire, checked in the bytes of the packet: protobuf-c would cut a string at
/// U+0000 and let through what is not UTF-8.
public enum Text {
  /// Well-formed UTF-8 (no surrogates, no overlong forms) without U+0000.
  public static func isValid(_ bytes: Span<UInt8>) -> Bool {
    var index = 0
    while index < bytes.count {
      let first = bytes[index]
      if first < 0x80 {
        if first == 0 { return false }
        index += 1
        continue
      }
      let length: Int
      var low: UInt8 = 0x80
      var high: UInt8 = 0xBF
      switch first {
      case 0xC2...0xDF: length = 2
      case 0xE0: (length, low) = (3, 0xA0)
      case 0xED: (length, high) = (3, 0x9F)
      case 0xE1...0xEF: length = 3
      case 0xF0: (length, low) = (4, 0x90)
      case 0xF4: (length, high) = (4, 0x8F)
      case 0xF1...0xF3: length = 4
      default: return false
      }
      guard bytes.count - index >= length, bytes[index + 1] >= low, bytes[index + 1] <= high else { return false }
      for next in 2..<max(length, 2) where bytes[index + next] & 0xC0 != 0x80 { return false }
      index += length
    }
    return true
  }

  /// A user name: 1 to 64 bytes of `[A-Za-z0-9._@-]`.
  public static func isUserName(_ bytes: Span<UInt8>) -> Bool {
    guard (1...WireLimits.maximumUserNameBytes).contains(bytes.count) else { return false }
    for index in 0..<bytes.count {
      switch bytes[index] {
      case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "@"),
        UInt8(ascii: "-"):
        continue
      default: return false
      }
    }
    return true
  }

  /// See `isUserName(_:)` for bytes.
  public static func isUserName(_ name: String) -> Bool { isUserName(name.utf8Span.span) }

  /// Whether U+0000 is in a string. Counts instead of searching, which the compiler does 16 bytes at a time.
  static func holdsNul(_ string: String) -> Bool {
    let bytes = string.utf8Span.span
    var nuls: UInt8 = 0
    for index in bytes.indices { nuls |= bytes[index] == 0 ? 1 : 0 }
    return nuls != 0
  }

  static func string(_ bytes: Span<UInt8>, _ range: Range<Int>) -> String {
    // SAFETY: the pointer lives for the call; the string copies.
    unsafe bytes.extracting(range).withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
  }
}
