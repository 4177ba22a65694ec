/// Fixed-width big-endian numbers in spans and arrays. The caller has checked the bounds of what a peer sent.
extension Span where Element == UInt8 {
  @inline(__always)
  func bigEndian16(at offset: Int) -> UInt16 {
    UInt16(self[offset]) << 8 | UInt16(self[offset + 1])
  }

  @inline(__always)
  func bigEndian32(at offset: Int) -> UInt32 {
    UInt32(bigEndian16(at: offset)) << 16 | UInt32(bigEndian16(at: offset + 2))
  }

  @inline(__always)
  func bigEndian64(at offset: Int) -> UInt64 {
    UInt64(bigEndian32(at: offset)) << 32 | UInt64(bigEndian32(at: offset + 4))
  }
}

extension [UInt8] {
  @inline(__always)
  mutating func appendBigEndian(_ value: UInt16) {
    append(UInt8(truncatingIfNeeded: value >> 8))
    append(UInt8(truncatingIfNeeded: value))
  }

  @inline(__always)
  mutating func appendBigEndian(_ value: UInt32) {
    appendBigEndian(UInt16(truncatingIfNeeded: value >> 16))
    appendBigEndian(UInt16(truncatingIfNeeded: value))
  }

  @inline(__always)
  mutating func appendBigEndian(_ value: UInt64) {
    appendBigEndian(UInt32(truncatingIfNeeded: value >> 32))
    appendBigEndian(UInt32(truncatingIfNeeded: value))
  }

  /// Replaces the 4 bytes at `offset`.
  mutating func storeBigEndian(_ value: UInt32, at offset: Int) {
    for index in 0..<4 { self[offset + index] = UInt8(truncatingIfNeeded: value >> UInt32(24 - 8 * index)) }
  }

  /// Appends a whole span with one copy.
  mutating func append(_ bytes: Span<UInt8>) {
    // SAFETY: the pointer lives for the call, and the array copies from it.
    unsafe bytes.withUnsafeBufferPointer { unsafe append(contentsOf: $0) }
  }

  /// A copy of `bytes`.
  init(_ bytes: Span<UInt8>) {
    // SAFETY: the pointer lives for the call, and the array copies from it.
    self = unsafe bytes.withUnsafeBufferPointer { unsafe Array($0) }
  }
}
