/// Appends Protobuf fields in the canonical form: a field that has its default value is left out.
extension [UInt8] {
  mutating func appendVarint(_ value: UInt64) {
    var rest = value
    while rest >= 0x80 {
      append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest >>= 7
    }
    append(UInt8(truncatingIfNeeded: rest))
  }

  mutating func appendField(_ number: UInt32, varint value: UInt64) {
    if value == 0 { return }
    appendVarint(UInt64(number) << 3)
    appendVarint(value)
  }

  mutating func appendField(_ number: UInt32, fixed64 value: UInt64) {
    if value == 0 { return }
    appendVarint(UInt64(number) << 3 | 1)
    appendLittleEndian(value, count: 8)
  }

  mutating func appendField(_ number: UInt32, float value: Float) {
    if value.bitPattern == 0 { return }
    appendVarint(UInt64(number) << 3 | 5)
    appendLittleEndian(UInt64(value.bitPattern), count: 4)
  }

  mutating func appendField(_ number: UInt32, string value: String) {
    if value.isEmpty { return }
    var value = value
    value.withUTF8 { utf8 in
      appendVarint(UInt64(number) << 3 | 2)
      appendVarint(UInt64(utf8.count))
      // SAFETY: the buffer lives for the call, and the array copies from it.
      unsafe append(contentsOf: utf8)
    }
  }

  mutating func appendField(_ number: UInt32, bytes value: [UInt8]) {
    if value.isEmpty { return }
    appendVarint(UInt64(number) << 3 | 2)
    appendVarint(UInt64(value.count))
    append(contentsOf: value)
  }

  /// A nested message, present even when empty.
  mutating func appendField(_ number: UInt32, message body: (inout [UInt8]) -> Void) {
    var nested: [UInt8] = []
    body(&nested)
    appendVarint(UInt64(number) << 3 | 2)
    appendVarint(UInt64(nested.count))
    append(contentsOf: nested)
  }

  /// A packed repeated varint field.
  mutating func appendField(_ number: UInt32, packed values: some Collection<UInt64>) {
    if values.isEmpty { return }
    appendField(
      number,
      message: { nested in
        for value in values { nested.appendVarint(value) }
      })
  }

  private mutating func appendLittleEndian(_ value: UInt64, count: Int) {
    for index in 0..<count { append(UInt8(truncatingIfNeeded: value >> UInt64(8 * index))) }
  }
}
