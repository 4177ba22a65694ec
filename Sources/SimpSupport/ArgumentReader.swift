/// Reads a command line by a list of flags: `--port 7467`, `--port=7467`, `-p 7467`, `-p7467`, `--json`, and `--` before
/// words that only look like flags.
public struct ArgumentReader: Sendable {
  public let flags: [Flag]
  /// How many words may stand beside the flags.
  public let words: ClosedRange<Int>

  public init(flags: [Flag], words: ClosedRange<Int> = 0...0) {
    self.flags = flags
    self.words = words
  }

  /// Reads `arguments`, the program's name and its subcommand left out. Of a flag given twice the last one counts.
  ///
  /// - Throws: a sentence that names the flag, and for an unknown one the nearest that exists. `--help` is not special:
  ///   list it as a switch; where it was given, missing words are not complained about.
  public func read(_ arguments: some Sequence<String>) throws(UsageError) -> Arguments {
    var values: [String: String] = [:]
    var found: [String] = []
    var rest = arguments.makeIterator()
    while let argument = rest.next() {
      if argument == "--" {
        while let word = rest.next() { found.append(word) }
      } else if argument.hasPrefix("--") {
        let parts = argument.dropFirst(2).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let flag = try flag(named: String(parts[0]))
        values[flag.name] = try value(of: flag, shown: "--\(flag.name)", attached: parts.dropFirst().first, &rest)
      } else if argument.hasPrefix("-"), argument.utf8.count > 1 {
        try readShort(argument.dropFirst(), &rest, into: &values)
      } else {
        found.append(argument)
      }
    }
    let result = Arguments(values: values, words: found)
    guard result.has("help") || words.contains(found.count) else {
      if found.count > words.upperBound {
        throw UsageError("one word too many: \(quoted(found[words.upperBound])); see --help")
      }
      throw UsageError("something is missing after \(quoted(found.last ?? "the command")); see --help")
    }
    return result
  }

  /// A line for each flag, aligned, at most 80 columns wide where the texts allow it.
  public var help: String {
    let heads = flags.map { flag in
      let short = flag.short.map { "-\($0), " } ?? "    "
      return "  \(short)--\(flag.name)" + (flag.placeholder.map { " \($0)" } ?? "")
    }
    let width = (heads.map(\.count).max() ?? 0) + 2
    return zip(heads, flags).map { head, flag in
      let standard = flag.defaultValue.map { " (\($0))" } ?? ""
      return head + String(repeating: " ", count: width - head.count) + flag.help + standard + "\n"
    }.joined()
  }

  /// `-n 5`, `-n5`, and switches run together: `-jq`.
  private func readShort(
    _ letters: Substring, _ rest: inout some IteratorProtocol<String>, into values: inout [String: String]
  ) throws(UsageError) {
    var letters = letters
    while let letter = letters.popFirst() {
      guard let flag = flags.first(where: { $0.short == letter }) else {
        throw UsageError("unknown flag -\(letter); see --help")
      }
      if flag.placeholder == nil {
        values[flag.name] = Arguments.on
      } else {
        let attached = letters.isEmpty ? nil : letters
        values[flag.name] = try value(of: flag, shown: "-\(letter)", attached: attached, &rest)
        return
      }
    }
  }

  private func flag(named name: String) throws(UsageError) -> Flag {
    if let flag = flags.first(where: { $0.name == name }) { return flag }
    if let near = nearest(to: name, among: flags.map(\.name)) {
      throw UsageError("unknown flag --\(name); did you mean --\(near)?")
    }
    throw UsageError("unknown flag --\(name); see --help")
  }

  private func value(
    of flag: Flag, shown: String, attached: Substring?, _ rest: inout some IteratorProtocol<String>
  ) throws(UsageError) -> String {
    guard let placeholder = flag.placeholder else {
      guard attached == nil else { throw UsageError("\(shown) is a switch and takes no value") }
      return Arguments.on
    }
    if let attached { return String(attached) }
    guard let next = rest.next() else { throw UsageError("\(shown) needs a value: \(shown) \(placeholder)") }
    return next
  }
}

/// What an `ArgumentReader` found.
public struct Arguments: Sendable {
  /// The value of a switch that was given.
  static let on = "yes"

  /// Values by flag name.
  let values: [String: String]
  /// The words that are no flags, in their order.
  public let words: [String]

  /// The value as it was typed, nil when the flag was not given.
  public func value(_ name: String) -> String? { values[name] }

  /// Whether the flag was given.
  public func has(_ name: String) -> Bool { values[name] != nil }
}
