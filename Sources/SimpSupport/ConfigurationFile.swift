import Glibc

/// A configuration file: a `key value` or `key = value` on each line, `#` begins a comment at the start of a line or
/// after white space. A value in double quotes keeps its white space and `#`; `\"` and `\\` stand for themselves in it.
public struct ConfigurationFile: Sendable {
  /// One line that sets something.
  public struct Entry: Hashable, Sendable {
    public let key: String
    public let value: String
    /// Counted from 1.
    public let line: Int
  }

  /// How the file is called in messages.
  public let name: String
  public let entries: [Entry]

  /// Files over this are refused. Bytes.
  public static let maximumBytes = 1 << 20

  /// - Throws: a sentence that begins with file and line (`simp.conf:3: …`) for a line without a value, a key set twice,
  ///   or a quote without its other end.
  public init(name: String, text: String) throws(UsageError) {
    self.name = name
    var entries: [Entry] = []
    var lineOfKey: [String: Int] = [:]
    for (index, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
      let place = "\(name):\(index + 1)"
      guard let (key, value) = try Self.parse(line, place: place) else { continue }
      if let earlier = lineOfKey[key] { throw UsageError("\(place): \(key) is set on line \(earlier) already") }
      lineOfKey[key] = index + 1
      entries.append(Entry(key: key, value: value, line: index + 1))
    }
    self.entries = entries
  }

  /// Reads the file at `path`.
  ///
  /// - Throws: as the other initialiser, and when the file cannot be read or is not UTF-8.
  public static func load(path: String) throws(UsageError) -> ConfigurationFile {
    let bytes = try FileContents.read(path: path, maximumBytes: maximumBytes)
    guard let text = String(validating: bytes, as: UTF8.self) else { throw UsageError("\(path): not a UTF-8 text") }
    return try ConfigurationFile(name: path, text: text)
  }

  private static func parse(_ line: Substring, place: String) throws(UsageError) -> (String, String)? {
    var rest = line.drop(while: \.isWhitespace)
    guard let first = rest.first, first != "#" else { return nil }
    let key = rest.prefix { !$0.isWhitespace && $0 != "=" }
    guard !key.isEmpty else { throw UsageError("\(place): a name is missing before the =") }
    rest = rest.dropFirst(key.count).drop(while: \.isWhitespace)
    if rest.first == "=" { rest = rest.dropFirst().drop(while: \.isWhitespace) }
    let value = try rest.first == "\"" ? quotedValue(rest, place: place) : plainValue(rest)
    guard let value else { throw UsageError("\(place): \(key) has no value; write: \(key) VALUE") }
    return (String(key), value)
  }

  private static func plainValue(_ text: Substring) -> String? {
    var value = text
    var previous: Character = " "
    for index in text.indices {
      if text[index] == "#", previous.isWhitespace {
        value = text[..<index]
        break
      }
      previous = text[index]
    }
    while value.last?.isWhitespace == true { value.removeLast() }
    return value.isEmpty ? nil : String(value)
  }

  private static func quotedValue(_ text: Substring, place: String) throws(UsageError) -> String? {
    var value = ""
    var rest = text.dropFirst()
    while let character = rest.popFirst() {
      switch character {
      case "\"":
        let after = rest.drop(while: \.isWhitespace)
        guard after.isEmpty || after.first == "#" else {
          throw UsageError("\(place): there is more after the closing quote")
        }
        return value
      case "\\":
        guard let escaped = rest.popFirst(), escaped == "\"" || escaped == "\\" else {
          throw UsageError("\(place): inside quotes a \\ stands only before \" or \\")
        }
        value.append(escaped)
      default:
        value.append(character)
      }
    }
    throw UsageError("\(place): the closing quote is missing")
  }
}
