/// A JSON object of texts, numbers and truth values, as a line of a history is one. Anything nested is refused.
struct FlatObject {
  private var fields: [(name: Substring, value: Substring)] = []

  /// - Returns: nil when it is not such an object.
  init?(_ line: some StringProtocol) {
    let text = Substring(line)
    // By bytes: whole characters are ten times as slow, and histories have millions of lines.
    var rest = text.utf8[...]
    while let last = rest.last, last == 0x20 || last == 0x0D { rest.removeLast() }
    guard rest.popFirst() == UInt8(ascii: "{") else { return nil }
    fields.reserveCapacity(10)
    while true {
      guard let name = Self.takeText(&rest), rest.popFirst() == UInt8(ascii: ":") else { return nil }
      if rest.first == UInt8(ascii: "\"") {
        guard let value = Self.takeText(&rest) else { return nil }
        fields.append((name, value))
      } else {
        let value = rest.prefix { !Self.endsValue($0) }
        guard !value.isEmpty else { return nil }
        rest = rest[value.endIndex...]
        fields.append((name, Substring(value)))
      }
      switch rest.popFirst() {
      case UInt8(ascii: ","): continue
      case UInt8(ascii: "}"): if rest.isEmpty { return } else { return nil }
      default: return nil
      }
    }
  }

  private static func endsValue(_ byte: UInt8) -> Bool {
    byte == UInt8(ascii: ",") || byte == UInt8(ascii: "}") || byte == UInt8(ascii: "{") || byte == UInt8(ascii: "[")
  }

  /// What stands between quotation marks. No text of a history needs an escape; one that has them is refused.
  private static func takeText(_ rest: inout Substring.UTF8View) -> Substring? {
    guard rest.popFirst() == UInt8(ascii: "\""), let end = rest.firstIndex(of: UInt8(ascii: "\"")) else { return nil }
    let text = rest[..<end]
    guard !text.contains(UInt8(ascii: "\\")) else { return nil }
    rest = rest[rest.index(after: end)...]
    return Substring(text)
  }

  func raw(_ name: String) -> Substring? { fields.first { $0.name == name }?.value }
  func text(_ name: String) -> String? { raw(name).map(String.init) }
  func number(_ name: String) -> UInt64? { raw(name).flatMap { UInt64($0) } }
  func small(_ name: String) -> UInt32? { raw(name).flatMap { UInt32($0) } }
  func flag(_ name: String) -> Bool { raw(name) == "true" }
}
