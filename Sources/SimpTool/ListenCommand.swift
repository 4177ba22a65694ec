internal import SimpConnection
internal import SimpIO
internal import SimpSupport

/// `simp listen`.
enum ListenCommand {
  static let subcommand = Subcommand(
    "listen", summary: "prints what comes for you",
    flags: Access.flags + [
      Access.storeFlag,
      Flag("ack", placeholder: "HOW", default: "automatic", help: "or manual: an id on standard input does it"),
      Flag("json", help: "an object a line instead of the text"),
      Flag("count", short: "n", placeholder: "COUNT", help: "end after COUNT messages"),
      Flag("timeout", placeholder: "TIME", help: "end after TIME; with -n, status 5 when fewer came"),
      Flag("quiet", short: "q", help: "nothing about the connection on standard error"),
      Flag("verbose", short: "v", help: "the connection's states, and how its datagrams fared, on standard error"),
    ],
    notes: """
      Not on a terminal it prints the text and a newline, nothing else. A message is receipted as delivered
      once it is printed, or, with --store, once it is in that file, where it stays until it is printed, with
      --ack manual until its id is read from standard input: what was printed and not acknowledged is printed
      again the next time, "redelivered". A signal ends it with 0, or 130 (143) when -n is not reached.

      examples: simp listen >> log.txt
                simp listen --json -n 1 | jq .text
      """
  ) { settings, _ throws(UsageError) in
    var access = try Access(settings)
    access.configuration.store = settings.string("store")
    let count = try settings.integer("count", in: 1...Int.max)
    let timeout = try settings.duration("timeout")
    let isJSON = try settings.isOn("json")
    let isManual = try acknowledgesByHand(settings)
    let session = Session(
      access, sendsOnly: false, isQuiet: try settings.isOn("quiet"), isVerbose: try settings.isOn("verbose"),
      acknowledgement: .manual)
    let show: @Sendable (SIMPMessage) -> String =
      isJSON ? MessageText.json : Terminal.standardOutputIsTerminal ? MessageText.terminal : MessageText.plain
    return await session.run(endsBySignal: count == nil) { connection in
      let output = Output()
      return try await withThrowingTaskGroup(of: Int32.self) { group in
        let shown = isManual ? ShownMessages() : nil
        if let shown {
          let input = try StandardInput()
          group.addTask { await shown.acknowledge(input) }
        }
        group.addTask { try await listen(connection, count: count, output: output, shown: shown, show) }
        if let timeout {
          group.addTask {
            try await Task.sleep(for: timeout)
            guard let count else { return ExitCode.ok }
            Terminal.say("simp: fewer than \(count) messages within \(DurationText.describe(timeout))")
            return ExitCode.timedOut
          }
        }
        defer { group.cancelAll() }
        return try await group.next() ?? ExitCode.ok
      }
    }
  }

  private static func acknowledgesByHand(_ settings: Settings) throws(UsageError) -> Bool {
    switch settings.string("ack") {
    case "manual": true
    case nil, "automatic": false
    case let other?: throw UsageError("--ack is automatic or manual, not \(quoted(other))")
    }
  }

  private static func listen(
    _ connection: SIMPConnection, count: Int?, output: Output, shown: ShownMessages?, _ show: (SIMPMessage) -> String
  ) async throws(SIMPError) -> Int32 {
    var left = count ?? .max
    var messages = connection.messages.makeAsyncIterator()
    while left > 0, let message = try await messages.next() {
      // What was not printed is not receipted: it comes again, to the next one who listens.
      // Entered before it is seen: its id may come back at once.
      shown?.add(message)
      guard output.line(show(message)) else { return ExitCode.failed }
      if shown == nil { message.acknowledge() }
      left -= 1
    }
    return ExitCode.ok
  }
}
