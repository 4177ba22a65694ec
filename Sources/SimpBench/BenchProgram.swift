public import SimpSupport

/// The load tester: what `simp-bench` does. A subcommand is a file of its own, and stands in the list here.
public enum BenchProgram {
  public static let program = CommandLineProgram(
    name: "simp-bench", summary: "measures a SIMP server, and checks that nothing is lost on the way.",
    subcommands: [
      PairCommand.subcommand, MeshCommand.subcommand, VerifyCommand.subcommand, VerifyClientCommand.subcommand,
    ],
    notes: """

      exit status: 0 done, 1 failed, 2 wrong usage, 3 no server, 4 login refused, 6 a message was lost, doubled,
      out of order or damaged, 130 interrupted
      """)
}
