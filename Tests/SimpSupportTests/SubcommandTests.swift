import SimpSupport
import Testing

struct SubcommandTests {
  private let program = CommandLineProgram(
    name: "tool", summary: "does things.",
    subcommands: [
      Subcommand(
        "add", words: "LEFT RIGHT", wordCount: 2...2, summary: "adds two numbers",
        flags: [Flag("twice", help: "and doubles the sum")]
      ) { settings, words throws(UsageError) in
        guard let left = Int32(words[0]), let right = Int32(words[1]) else { throw UsageError("no numbers") }
        return (left + right) * (try settings.isOn("twice") ? 2 : 1)
      },
      Subcommand("subtract", summary: "subtracts", flags: []) { _, _ in 0 },
    ],
    notes: "Notes.")

  @Test func runsTheOneThatIsNamed() async {
    #expect(await program.run(["add", "3", "4"]) == 7)
    #expect(await program.run(["add", "3", "--twice", "4"]) == 14)
  }

  @Test(arguments: [
    [], ["ad"], ["frobnicate"], ["add"], ["add", "1"], ["add", "1", "2", "3"], ["add", "1", "2", "--thrice"],
    ["add", "one", "2"], ["help", "frobnicate"],
  ])
  func misuseIsUsage(_ arguments: [String]) async {
    #expect(await program.run(arguments) == ExitCode.usage)
  }

  @Test func helpListsAllAndFitsAScreen() {
    #expect(program.help.contains("  add LEFT RIGHT  adds two numbers\n"))
    #expect(program.help.contains("  subtract        subtracts\n"))
    let help = program.subcommands[0].help(program: "tool")
    #expect(help.hasPrefix("tool add: adds two numbers\n\nusage: tool add LEFT RIGHT [flags]\n"))
    #expect(help.contains("--twice") && help.contains("--help"))
  }
}
