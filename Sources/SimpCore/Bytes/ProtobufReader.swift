/// One field of a Protobuf message, without its value.
struct ProtobufField {
  enum Kind: UInt8 {
    case varint = 0
    case fixed64 = 1
    case bytes = 2
    case fixed32 = 5
  }

  var number: UInt32
  var kind: Kind
  /// Varint, fixed64 and fixed32: the value. Bytes: unused.
  var value: UInt64
  /// Bytes: where they lie in the message.
  var range: Range<Int>
}

/// Walks the fields of a Protobuf message in place. Messages and receipts are read with it, because they pass by
/// the hundred thousand a second and need neither allocation nor a copy; all else goes through protobuf-c.
struct ProtobufReader: ~Escapable {
  let bytes: Span<UInt8>
  private(set) var offset: Int

  @_lifetime(copy bytes)
  init(_ bytes: Span<UInt8>) {
    self.bytes = bytes
    offset = 0
  }

  /// The next field, nil at the end.
  ///
  /// - Throws: `malformed` for truncated fields, groups, field number 0, varints over 10 bytes, and tags and lengths over
  ///   5: other readers refuse those, and a server must not relay what they cannot read.
  mutating func next() throws(WireError) -> ProtobufField? {
    if offset == bytes.count { return nil }
    let tag = try shortVarint()
    guard tag >> 3 > 0, tag >> 3 < 1 << 29, let kind = ProtobufField.Kind(rawValue: UInt8(tag & 7)) else {
      throw .malformed
    }
    var field = ProtobufField(number: UInt32(tag >> 3), kind: kind, value: 0, range: 0..<0)
    switch kind {
    case .varint:
      field.value = try varint()
    case .fixed64:
      field.value = try fixed(8)
    case .fixed32:
      field.value = try fixed(4)
    case .bytes:
      let count = try shortVarint()
      guard count <= UInt64(bytes.count - offset) else { throw .malformed }
      field.range = offset..<offset + Int(count)
      offset += Int(count)
    }
    return field
  }

  /// The next varint: for tags and packed fields.
  mutating func varint() throws(WireError) -> UInt64 {
    var value: UInt64 = 0
    var shift: UInt64 = 0
    while offset < bytes.count {
      let byte = bytes[offset]
      offset += 1
      if shift == 63 && byte > 1 { throw .malformed }
      value |= UInt64(byte & 0x7F) << shift
      if byte < 0x80 { return value }
      shift += 7
      if shift > 63 { throw .malformed }
    }
    throw .malformed
  }

  private mutating func shortVarint() throws(WireError) -> UInt64 {
    let start = offset
    let value = try varint()
    guard offset - start <= 5 else { throw .malformed }
    return value
  }

  private mutating func fixed(_ count: Int) throws(WireError) -> UInt64 {
    guard bytes.count - offset >= count else { throw .malformed }
    var value: UInt64 = 0
    for index in 0..<count { value |= UInt64(bytes[offset + index]) << UInt64(8 * index) }
    offset += count
    return value
  }
}
