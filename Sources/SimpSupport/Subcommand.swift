/// One of the things a program does: `send` of `simp send bob hello`.
public struct Subcommand: Sendable {
  public let name: String
  /// What stands behind the name: `USER [TEXT]`.
  public let words: String
  /// Half a line for the program's help.
  public let summary: String
  public let flags: [Flag]
  /// How many words may stand beside the flags.
  public let wordCount: ClosedRange<Int>
  /// Left out of the program's help: the program starts it by itself.
  public let isHidden: Bool
  /// What its own help says below the flags: examples, exit status.
  public let notes: String
  /// Does it. The result is the exit status; a `UsageError` ends with `ExitCode.usage`.
  public let run: @Sendable (_ settings: Settings, _ words: [String]) async throws(UsageError) -> Int32

  public init(
    _ name: String, words: String = "", wordCount: ClosedRange<Int> = 0...0, summary: String,
    isHidden: Bool = false, flags: [Flag], notes: String = "",
    run: @escaping @Sendable (_ settings: Settings, _ words: [String]) async throws(UsageError) -> Int32
  ) {
    self.name = name
    self.words = words
    self.wordCount = wordCount
    self.summary = summary
    self.isHidden = isHidden
    self.flags = flags + [Flag("help", short: "h", help: "this text")]
    self.notes = notes
    self.run = run
  }

  /// The text of `PROGRAM NAME --help`.
  public func help(program: String) -> String {
    let reader = ArgumentReader(flags: flags)
    let usage = ["usage: \(program) \(name)", words, "[flags]"].filter { !$0.isEmpty }.joined(separator: " ")
    return "\(program) \(name): \(summary)\n\n\(usage)\n\n\(reader.help)" + (notes.isEmpty ? "" : "\n\(notes)\n")
  }
}

/// A program made of subcommands.
public struct CommandLineProgram: Sendable {
  public let name: String
  /// What it is, in half a line.
  public let summary: String
  public let subcommands: [Subcommand]
  /// What the help says below the list of subcommands.
  public let notes: String

  public init(name: String, summary: String, subcommands: [Subcommand], notes: String) {
    self.name = name
    self.summary = summary
    self.subcommands = subcommands
    self.notes = notes
  }

  /// Finds the subcommand, reads its flags, runs it.
  ///
  /// - Parameter arguments: the program's name left out.
  /// - Returns: the exit status. What was wrong has been said on standard error.
  public func run(_ arguments: [String]) async -> Int32 {
    do throws(UsageError) {
      guard let word = arguments.first else {
        throw UsageError(
          "say what to do: \(subcommands.filter { !$0.isHidden }.map(\.name).joined(separator: ", ")); see \(name) help"
        )
      }
      if ["help", "--help", "-h"].contains(word) { return try help(arguments.dropFirst()) }
      let subcommand = try subcommand(named: word)
      let reader = ArgumentReader(flags: subcommand.flags, words: 0...subcommand.wordCount.upperBound)
      let read = try reader.read(arguments.dropFirst())
      if read.has("help") { return show(subcommand.help(program: name)) }
      guard read.words.count >= subcommand.wordCount.lowerBound else {
        throw UsageError("something is missing; write: \(name) \(subcommand.name) \(subcommand.words)")
      }
      let settings = try Settings(flags: subcommand.flags, arguments: read)
      return try await subcommand.run(settings, read.words)
    } catch {
      Terminal.say("\(name): \(error)")
      return ExitCode.usage
    }
  }

  /// The text of `PROGRAM help`.
  public var help: String {
    let subcommands = subcommands.filter { !$0.isHidden }
    let heads = subcommands.map { "  \($0.name) \($0.words)" }
    let width = (heads.map(\.count).max() ?? 0) + 2
    let lines = zip(heads, subcommands).map { head, subcommand in
      head + String(repeating: " ", count: width - head.count) + subcommand.summary + "\n"
    }
    return "\(name): \(summary)\n\n\(lines.joined())\n\(name) NAME --help lists the flags.\n\(notes)\n"
  }

  private func help(_ topics: ArraySlice<String>) throws(UsageError) -> Int32 {
    guard let topic = topics.first else { return show(help) }
    return show(try subcommand(named: topic).help(program: name))
  }

  private func subcommand(named word: String) throws(UsageError) -> Subcommand {
    if let subcommand = subcommands.first(where: { $0.name == word }) { return subcommand }
    let near = nearest(to: word, among: subcommands.filter { !$0.isHidden }.map(\.name)).map { "did you mean \($0)?" }
    throw UsageError("unknown subcommand \(quoted(word)); \(near ?? "see \(name) help")")
  }

  private func show(_ text: String) -> Int32 {
    do throws(OutputWriter.Failure) {
      try OutputWriter.standardOutput.write(text)
      return ExitCode.ok
    } catch {
      if !error.isClosed { Terminal.say("\(name): \(error)") }
      return ExitCode.failed
    }
  }
}
