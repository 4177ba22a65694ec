/// Cuts bytes into lines. A last line without its newline counts; nothing after the last newline is no line.
struct LineSplitter {
  /// A line longer than this is cut off and marked: no message could hold it. Bytes.
  static let maximumBytes = 256 * 1024

  enum Line: Equatable, Sendable {
    case text(String)
    /// What is wrong with it, for a person.
    case unusable(String)
  }

  // BOUND: `maximumBytes` and what one read brings.
  private var rest: [UInt8] = []
  private var isOverlong = false

  /// - Returns: the lines that are whole now.
  mutating func take(_ bytes: [UInt8]) -> [Line] {
    var lines: [Line] = []
    var start = 0
    while let end = bytes[start...].firstIndex(of: 0x0A) {
      lines.append(finish(bytes[start..<end]))
      start = end + 1
    }
    keep(bytes[start...])
    return lines
  }

  /// The end of the input.
  ///
  /// - Returns: the line that had no newline, if there was one.
  mutating func finish() -> Line? { rest.isEmpty && !isOverlong ? nil : finish([]) }

  private mutating func finish(_ end: ArraySlice<UInt8>) -> Line {
    keep(end)
    defer {
      rest.removeAll(keepingCapacity: true)
      isOverlong = false
    }
    guard !isOverlong else { return .unusable("longer than \(Self.maximumBytes) bytes") }
    guard let text = String(validating: rest, as: UTF8.self) else { return .unusable("not UTF-8") }
    return .text(text)
  }

  private mutating func keep(_ bytes: ArraySlice<UInt8>) {
    guard !isOverlong, rest.count + bytes.count <= Self.maximumBytes else {
      rest = []
      isOverlong = true
      return
    }
    rest += bytes
  }
}
