/// A value of JSON text (RFC 8259), as tokens and key sets hold it. Stricter than most readers: a name that stands twice
/// in an object is an error, for two readers could take different ones.
enum JSON: Hashable {
  case null
  case bool(Bool)
  /// Digits and a minus sign only, within 64 bits.
  case integer(Int64)
  /// Any other number, as it was written; nothing here needs its value.
  case number(String)
  case string(String)
  case array([JSON])
  case object([String: JSON])

  /// Reads a whole text; white space around it is allowed.
  ///
  /// - Returns: nil for anything that is not JSON, or not in UTF-8, or nested deeper than 16.
  init?(_ text: [UInt8]) {
    var reader = JSONReader(text)
    guard let value = reader.readAll() else { return nil }
    self = value
  }

  var string: String? { if case .string(let text) = self { text } else { nil } }
  var object: [String: JSON]? { if case .object(let members) = self { members } else { nil } }
  var array: [JSON]? { if case .array(let elements) = self { elements } else { nil } }

  /// A time in whole seconds of Unix time. Fractions, exponents, text and negative numbers are no times here.
  var seconds: UInt64? { if case .integer(let value) = self, value >= 0 { UInt64(value) } else { nil } }
}

extension JSON {
  /// The value as JSON text, names of an object in alphabetical order.
  var text: String {
    switch self {
    case .null: "null"
    case .bool(let value): value ? "true" : "false"
    case .integer(let value): "\(value)"
    case .number(let text): text
    case .string(let text): Self.quoted(text)
    case .array(let elements): "[" + elements.map(\.text).joined(separator: ",") + "]"
    case .object(let members):
      "{"
        + members.sorted { $0.key < $1.key }.map { "\(Self.quoted($0.key)):\($0.value.text)" }.joined(separator: ",")
        + "}"
    }
  }

  private static func quoted(_ text: String) -> String {
    var quoted = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"", "\\": quoted += "\\\(scalar)"
      case "\0"..."\u{1F}":
        let code = String(scalar.value, radix: 16)
        quoted += "\\u" + String(repeating: "0", count: 4 - code.count) + code
      default: quoted.unicodeScalars.append(scalar)
      }
    }
    return quoted + "\""
  }
}

/// The reading of `JSON`.
private struct JSONReader {
  private let text: [UInt8]
  private var position = 0
  // BOUND: nesting costs stack; tokens and key sets need 3.
  private static let maximumDepth = 16

  init(_ text: [UInt8]) { self.text = text }

  mutating func readAll() -> JSON? {
    guard let value = read(depth: 0) else { return nil }
    skipSpace()
    return position == text.count ? value : nil
  }

  private mutating func read(depth: Int) -> JSON? {
    guard depth < Self.maximumDepth else { return nil }
    skipSpace()
    switch peek {
    case UInt8(ascii: "{"): return readObject(depth: depth)
    case UInt8(ascii: "["): return readArray(depth: depth)
    case UInt8(ascii: "\""): return readString().map { .string($0) }
    case UInt8(ascii: "t"): return take("true") ? .bool(true) : nil
    case UInt8(ascii: "f"): return take("false") ? .bool(false) : nil
    case UInt8(ascii: "n"): return take("null") ? .null : nil
    default: return readNumber()
    }
  }

  private mutating func readObject(depth: Int) -> JSON? {
    position += 1
    var members: [String: JSON] = [:]
    skipSpace()
    if take("}") { return .object(members) }
    while true {
      skipSpace()
      guard let name = readString() else { return nil }
      skipSpace()
      guard take(":"), let value = read(depth: depth + 1), members.updateValue(value, forKey: name) == nil else {
        return nil
      }
      skipSpace()
      if take("}") { return .object(members) }
      guard take(",") else { return nil }
    }
  }

  private mutating func readArray(depth: Int) -> JSON? {
    position += 1
    var elements: [JSON] = []
    skipSpace()
    if take("]") { return .array(elements) }
    while true {
      guard let value = read(depth: depth + 1) else { return nil }
      elements.append(value)
      skipSpace()
      if take("]") { return .array(elements) }
      guard take(",") else { return nil }
    }
  }

  private mutating func readString() -> String? {
    guard take("\"") else { return nil }
    var bytes: [UInt8] = []
    while let byte = peek {
      position += 1
      switch byte {
      case UInt8(ascii: "\""): return String(validating: bytes, as: UTF8.self)
      case UInt8(ascii: "\\"):
        guard let scalar = readEscape() else { return nil }
        bytes += String(scalar).utf8
      case 0..<0x20: return nil
      default: bytes.append(byte)
      }
    }
    return nil
  }

  private mutating func readEscape() -> Unicode.Scalar? {
    guard let byte = peek else { return nil }
    position += 1
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
    case UInt8(ascii: "b"): return "\u{8}"
    case UInt8(ascii: "f"): return "\u{C}"
    case UInt8(ascii: "n"): return "\n"
    case UInt8(ascii: "r"): return "\r"
    case UInt8(ascii: "t"): return "\t"
    case UInt8(ascii: "u"): break
    default: return nil
    }
    guard let first = readUnit() else { return nil }
    guard (0xD800..<0xDC00).contains(first) else { return Unicode.Scalar(first) }
    guard take("\\u"), let second = readUnit(), (0xDC00..<0xE000).contains(second) else { return nil }
    return Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00))
  }

  private mutating func readUnit() -> UInt32? {
    guard position + 4 <= text.count else { return nil }
    var value: UInt32 = 0
    for byte in text[position..<position + 4] {
      guard let digit = Hex.value(of: byte) else { return nil }
      value = value << 4 | UInt32(digit)
    }
    position += 4
    return value
  }

  private mutating func readNumber() -> JSON? {
    let start = position
    _ = take("-")
    guard let first = peek, isDigit(first) else { return nil }
    if !take("0") { skipDigits() }
    var isWhole = true
    if take(".") {
      isWhole = false
      guard skipDigits() else { return nil }
    }
    if take("e") || take("E") {
      isWhole = false
      if !take("+") { _ = take("-") }
      guard skipDigits() else { return nil }
    }
    let digits = String(decoding: text[start..<position], as: UTF8.self)
    guard isWhole, let value = Int64(digits) else { return .number(digits) }
    return .integer(value)
  }

  @discardableResult
  private mutating func skipDigits() -> Bool {
    let start = position
    while let byte = peek, isDigit(byte) { position += 1 }
    return position > start
  }

  private func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }
  private var peek: UInt8? { position < text.count ? text[position] : nil }

  private mutating func take(_ word: StaticString) -> Bool {
    let length = word.utf8CodeUnitCount
    guard position + length <= text.count else { return false }
    let matches = word.withUTF8Buffer { expected in
      for index in 0..<length where unsafe expected[index] != text[position + index] { return false }
      return true
    }
    if matches { position += length }
    return matches
  }

  private mutating func skipSpace() {
    while let byte = peek, [0x20, 0x09, 0x0A, 0x0D].contains(byte) { position += 1 }
  }
}
