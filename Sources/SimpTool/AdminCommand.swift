internal import SimpConnection
internal import SimpSupport

/// `simp admin`: what needs an administrator's token.
enum AdminCommand {
  static let subcommand = Subcommand(
    "admin", words: "kick USER | counters", wordCount: 1...2,
    summary: "sends a user away; shows what the server counts",
    flags: Access.flags + [
      Flag("reason", placeholder: "TEXT", help: "with kick: what the user is told"),
      Flag("json", help: "with counters: one object"),
      Flag("verbose", short: "v", help: "the connection's states on standard error"),
    ],
    notes: """
      kick ends all sessions of a user and has the server refuse tokens that were issued before: a new token lets the
      user in again. It holds for 365 days; for a user who is to stay out, give out no more tokens.

      The token must be an administrator's (simp token USER --admin). On the server's own machine one is made with its
      key, for the user admin or --as USER.
      """
  ) { settings, words throws(UsageError) in
    let action = try Action(settings, words)
    let access = try Access(settings, administrator: "admin")
    let session = Session(access, sendsOnly: true, isQuiet: false, isVerbose: try settings.isOn("verbose"))
    return await session.run { connection in
      let output = Output()
      try await action.run(connection, output)
      return output.status(ExitCode.ok)
    }
  }

  private enum Action {
    case kick(user: String, reason: String)
    case counters(asJSON: Bool)

    init(_ settings: Settings, _ words: [String]) throws(UsageError) {
      switch (words[0], words.count) {
      case ("kick", 2):
        try UsageError.checkUser(words[1])
        self = .kick(user: words[1], reason: settings.string("reason") ?? "")
      case ("counters", 1): self = .counters(asJSON: try settings.isOn("json"))
      default: throw UsageError("write: simp admin kick USER, or simp admin counters")
      }
    }

    func run(_ connection: SIMPConnection, _ output: Output) async throws(SIMPError) {
      switch self {
      case .kick(let user, let reason):
        let kick = try await connection.kick(user, reason: reason)
        output.line("\(user) is sent away: tokens issued until \(kick.issuedUntil) (Unix seconds) are refused")
        if !kick.isStored {
          Terminal.say(
            "simp: the server's Redis does not know it yet: it holds until the server stops, or Redis is back")
        }
      case .counters(let asJSON):
        let counters = try await connection.serverCounters()
        if asJSON {
          output.line("{" + counters.map { "\"\($0.name)\":\($0.value)" }.joined(separator: ",") + "}")
        } else {
          for (name, value) in counters { output.line("\(printable(name)) \(value)") }
        }
      }
    }
  }
}
