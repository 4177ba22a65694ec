/// Turns the bytes of an input into choices. At the end of the input it gives zeros, so that every input is a whole
/// program for its target.
struct InputReader {
  let bytes: [UInt8]
  private(set) var offset = 0

  init(_ bytes: [UInt8]) { self.bytes = bytes }

  var isAtEnd: Bool { offset >= bytes.count }

  mutating func byte() -> UInt8 {
    guard offset < bytes.count else { return 0 }
    defer { offset += 1 }
    return bytes[offset]
  }

  /// 0 to `count` - 1.
  mutating func choice(_ count: UInt8) -> UInt8 { byte() % count }

  /// Up to `count` bytes, fewer at the end.
  mutating func bytes(_ count: Int) -> [UInt8] {
    let end = min(offset + count, bytes.count)
    defer { offset = end }
    return Array(bytes[offset..<end])
  }

  mutating func rest() -> [UInt8] { bytes(bytes.count) }

  mutating func fixed(_ count: Int) -> UInt64 { (0..<count).reduce(0) { sum, _ in sum << 8 | UInt64(byte()) } }

  /// A number: mostly small, sometimes next to where a field of the wire ends.
  mutating func number() -> UInt64 {
    let form = byte()
    switch form {
    case 0..<0xC0: return UInt64(form)
    case 0xC0..<0xD0: return UInt64(form & 15) << 8 | UInt64(byte())
    case 0xD0..<0xE0: return Self.edges[Int(form & 15)] &+ UInt64(byte()) &- 128
    case 0xE0..<0xF0: return fixed(4)
    default: return fixed(8)
    }
  }

  private static let edges: [UInt64] = [
    0, 1 << 10, 1 << 14, 1 << 16, 1 << 23, 1 << 24, 1 << 32, 1 << 40, 1 << 48, 1 << 53, 1 << 62, 1 << 63, .max,
    16384, 960, 4096,
  ]
}
