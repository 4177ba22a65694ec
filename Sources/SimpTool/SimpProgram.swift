public import SimpSupport

/// The command-line client: what `simp` does.
public enum SimpProgram {
  public static let program = CommandLineProgram(
    name: "simp", summary: "sends and receives messages.",
    subcommands: [
      SendCommand.subcommand, ListenCommand.subcommand, ChatCommand.subcommand, PingCommand.subcommand,
      TokenCommand.subcommand, AdminCommand.subcommand,
    ],
    notes: """
      Who you are: a token in SIMP_TOKEN or --token-file; on the server's own machine --as USER makes one.
      Where: --server HOST:PORT or SIMP_SERVER. Whom to trust: --pin or --ca, else the system's authorities; a
      server on this machine is known by server.pin beside its --key.

      exit status: 0 done, 1 failed, 2 wrong usage, 3 no server, 4 login refused, 5 the time of --timeout is
      over, 6 something was not delivered, 130 interrupted
      """)
}
