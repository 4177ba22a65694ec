internal import SimpConnection
internal import SimpIO
internal import SimpSupport

/// `simp ping`.
enum PingCommand {
  static let subcommand = Subcommand(
    "ping", summary: "measures the round trip to the server, by UDP and by TCP",
    flags: Access.flags + [
      Flag("count", short: "n", placeholder: "COUNT", default: "5", help: "how often"),
      Flag("interval", placeholder: "TIME", default: "200ms", help: "from one to the next"),
      Flag("verbose", short: "v", help: "the connection's states, and how its datagrams fared, on standard error"),
    ],
    notes: """
      Ends with 1 when an answer is missing, by UDP for instance. It logs in to send only: it ends no other
      session of yours.
      """
  ) { settings, _ throws(UsageError) in
    let access = try Access(settings)
    let count = try settings.integer("count", in: 1...1_000_000) ?? 5
    let interval = try settings.duration("interval") ?? .milliseconds(200)
    let session = Session(access, sendsOnly: true, isQuiet: false, isVerbose: try settings.isOn("verbose"))
    let usesUDP = access.configuration.usesUDP
    return await session.run { connection in
      let output = Output()
      let isUp = usesUDP ? await waitForPath(connection) : false
      if usesUDP, !isUp {
        Terminal.say("simp: no answer by udp within 3 s (a firewall?): messages go by tcp meanwhile")
      }
      var times: [SIMPTransport: [Duration]] = [:]
      let transports: [SIMPTransport] = isUp ? [.udp, .tcp] : [.tcp]
      for round in 1...count {
        if round > 1 { try await Task.sleep(for: interval) }
        var parts: [String] = []
        for transport in transports {
          do throws(SIMPError) {
            let time = try await connection.ping(via: transport)
            times[transport, default: []].append(time)
            parts.append("\(transport.rawValue) \(DurationText.describe(time))")
          } catch {
            if error.code == .cancelled { throw error }
            parts.append("\(transport.rawValue) none: \(printable(error.message))")
          }
        }
        output.line(parts.joined(separator: "  "))
      }
      for transport in transports {
        output.line(summary(transport, times[transport] ?? [], of: count))
      }
      let isWhole = transports.allSatisfy { times[$0]?.count == count } && isUp == usesUDP
      return output.status(isWhole ? ExitCode.ok : ExitCode.failed)
    }
  }

  /// `udp: 5 of 5 answered, min 0.21 ms, mean 0.25 ms, max 0.31 ms`.
  static func summary(_ transport: SIMPTransport, _ times: [Duration], of count: Int) -> String {
    let head = "\(transport.rawValue): \(times.count) of \(count) answered"
    guard let least = times.min(), let most = times.max() else { return head }
    let mean = times.reduce(Duration.zero, +) / times.count
    return "\(head), min \(DurationText.describe(least)), mean \(DurationText.describe(mean)), "
      + "max \(DurationText.describe(most))"
  }

  private static func waitForPath(_ connection: SIMPConnection) async -> Bool {
    await withTaskGroup(of: Bool.self) { group in
      group.addTask {
        for await state in connection.states {
          if case .pathUp = state { return true }
        }
        return false
      }
      group.addTask {
        try? await Task.sleep(for: .seconds(3))
        return false
      }
      defer { group.cancelAll() }
      return await group.next() ?? false
    }
  }
}
