/// A JSON value to print. Objects keep the order they were written in.
public enum JSONValue: Hashable, Sendable {
  case null
  case bool(Bool)
  case integer(Int64)
  case unsigned(UInt64)
  /// A number with that many digits after the point; one that is no number comes out as null, for JSON has no word.
  case number(Double, digits: Int)
  case string(String)
  case array([JSONValue])
  case object([Member])

  /// A name and a value of an object.
  public struct Member: Hashable, Sendable {
    public let name: String
    public let value: JSONValue

    public init(_ name: String, _ value: JSONValue) {
      self.name = name
      self.value = value
    }
  }

  /// An object of these members, in this order.
  public static func object(_ members: KeyValuePairs<String, JSONValue>) -> JSONValue {
    .object(members.map { Member($0.key, $0.value) })
  }
}

extension JSONValue: CustomStringConvertible {
  /// The value on one line, without spaces.
  public var description: String {
    switch self {
    case .null: "null"
    case .bool(let value): value ? "true" : "false"
    case .integer(let value): "\(value)"
    case .unsigned(let value): "\(value)"
    case .number(let value, let digits): value.isFinite ? fixed(value, digits: digits) : "null"
    case .string(let text): Self.quote(text)
    case .array(let values): "[" + values.map(\.description).joined(separator: ",") + "]"
    case .object(let members):
      "{" + members.map { Self.quote($0.name) + ":" + $0.value.description }.joined(separator: ",") + "}"
    }
  }

  /// Escapes what JSON wants escaped, and the separators at which some readers of lines break: U+0085, U+2028, U+2029.
  private static func quote(_ text: String) -> String {
    var result = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": result += "\\\""
      case "\\": result += "\\\\"
      case "\n": result += "\\n"
      case "\r": result += "\\r"
      case "\t": result += "\\t"
      case "\u{0}"..."\u{1F}", "\u{7F}"..."\u{9F}", "\u{2028}", "\u{2029}":
        let digits = String(scalar.value, radix: 16)
        result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result + "\""
  }
}
