internal import SimpSupport

/// `simp-bench mesh`: everybody sends everybody.
enum MeshCommand {
  static let subcommand = Subcommand(
    "mesh", summary: "many users, each sends to any other: rate, latency, CPU and memory for each, verdict",
    flags: Target.flags + [
      Flag("connections", short: "c", placeholder: "COUNT", default: "100", help: "users, each with one connection"),
      Flag("window", short: "w", placeholder: "COUNT", default: "100", help: "messages under way in all"),
      Flag("rate", short: "r", placeholder: "RATE", help: "messages/s in all instead, open loop"),
      Flag("size", short: "s", placeholder: "BYTES", default: "128", help: "of each text, 46 to 65536"),
      Flag("duration", short: "d", placeholder: "TIME", default: "5s", help: "how long messages are sent"),
      Flag("drain", placeholder: "TIME", default: "30s", help: "wait at the end for what is under way"),
      Flag("seed", placeholder: "NUMBER", default: "1", help: "of who sends to whom"),
      Flag("server-pid", placeholder: "PID", help: "of the server, with --server: shows its CPU and memory"),
      Flag("no-udp", help: "TCP only"),
      Flag("json", help: "one JSON object on standard output"),
    ],
    notes: """
      Each message that is delivered makes its receiver send a fresh one to a random user, WINDOW under way in
      all. With --rate they leave by a schedule instead, each from a random user. Latency is from the moment a
      message was to be sent to when its recipient's application would have it. All users live on one thread and
      drive the client core itself: what costs the library to bring messages to tasks is not in these figures
      (that is `simp-bench pair`). Without --server it starts a private simp-server for the run.

      examples: simp-bench mesh -c 1000 -w 2000 -s 128 -d 5
                simp-bench mesh -c 64 --rate 320 -d 20 --json
      """
  ) { settings, _ throws(UsageError) in
    let plan = try MeshPlan(settings)
    let target = try Target(settings)
    if plan.serverPID != nil, case .privateServer = target {
      throw UsageError("--server-pid is for --server: a private server is known")
    }
    return await BenchSession.run(target) { place in
      try await MeshRun(plan, place: place).run()
    }
  }
}

/// What a run of `mesh` is asked to do.
struct MeshPlan: Sendable {
  var connections = 100
  var window = 100
  /// Messages a second in all; nil for a closed loop.
  var rate: Double?
  var size = 128
  var duration = Duration.seconds(5)
  var drain = Duration.seconds(30)
  var seed: UInt64 = 1
  var serverPID: Int32?
  var usesUDP = true
  var printsJSON = false

  init() {}

  init(_ settings: Settings) throws(UsageError) {
    connections = try settings.count("connections", in: 1...20_000) ?? connections
    window = try settings.count("window", in: 1...1_000_000) ?? window
    rate = try settings.rate("rate")
    size = try settings.count("size", in: Payload.minimumBytes...65_536) ?? size
    duration = try settings.time("duration", in: .milliseconds(100)...(.seconds(86_400))) ?? duration
    drain = try settings.time("drain", in: .zero...(.seconds(3600))) ?? drain
    seed = UInt64(try settings.integer("seed") ?? 1)
    serverPID = try settings.integer("server-pid", in: 1...Int(Int32.max)).map(Int32.init)
    usesUDP = try !settings.isOn("no-udp")
    printsJSON = try settings.isOn("json")
  }
}
