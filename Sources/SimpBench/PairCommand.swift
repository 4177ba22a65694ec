internal import SimpConnection
internal import SimpIO
internal import SimpSupport

/// `simp-bench pair`: each sender sends one recipient.
enum PairCommand {
  static let subcommand = Subcommand(
    "pair", summary: "pairs of users, one sends to the other: rate, latency, verdict",
    flags: Target.flags + [
      Flag("pairs", short: "p", placeholder: "COUNT", default: "1", help: "how many pairs"),
      Flag("rate", short: "r", placeholder: "RATE", help: "messages/s in all, open loop (none: as windows allow)"),
      Flag("window", short: "w", placeholder: "COUNT", default: "1000", help: "under way in a pair, without --rate"),
      Flag("size", short: "s", placeholder: "BYTES", default: "128", help: "of each text, 46 to 65536"),
      Flag("duration", short: "d", placeholder: "TIME", default: "5s", help: "measured time"),
      Flag("warmup", placeholder: "TIME", default: "1s", help: "load before the measured time"),
      Flag("drain", placeholder: "TIME", default: "30s", help: "wait at the end for what is under way"),
      Flag("loss", placeholder: "SHARE", help: "of its datagrams, each way: 0.05 or 5%"),
      Flag("delay", placeholder: "TIME", help: "of its datagrams, each way: 20ms"),
      Flag("seed", placeholder: "NUMBER", default: "1", help: "of the losses"),
      Flag(
        "redundancy", placeholder: "WHEN", default: "idle",
        help: "off, idle or always: the last messages go twice; the server has its own"),
      Flag("cipher", placeholder: "NAME", help: "of the datagrams: aes128 or chacha20 (the faster one here)"),
      Flag(
        "key-phase-packets", placeholder: "COUNT", default: "65536",
        help: "datagrams under one key; the server has its own"),
      Flag("no-udp", help: "TCP only"),
      Flag("json", help: "one JSON object on standard output"),
    ],
    notes: """
      Without --server it starts a private simp-server for the run. Latencies count from the time a message was
      due, to when its recipient has it. RATE and COUNT take k and M: 50k.

      examples: simp-bench pair --pairs 32 --rate 5k -d 10
                simp-bench pair --rate 500 --loss 20% --delay 20ms --json
      """
  ) { settings, _ throws(UsageError) in
    let plan = try PairPlan(settings)
    let target = try Target(settings)
    return await BenchSession.run(target) { place in
      try await PairRun(plan, place: place).run()
    }
  }
}

/// What a run of `pair` is asked to do.
struct PairPlan: Sendable {
  var pairs = 1
  /// Messages a second in all; nil for a closed loop.
  var rate: Double?
  var window = 1000
  var size = 128
  var duration = Duration.seconds(5)
  var warmUp = Duration.seconds(1)
  var drain = Duration.seconds(30)
  var usesUDP = true
  var keyPhaseDatagrams = 65_536
  var ciphers = SIMPConnection.Configuration.Cipher.preference
  var redundancy = SIMPConnection.Configuration.Redundancy.idle
  var impairment: SIMPImpairment?
  var printsJSON = false

  init() {}

  init(_ settings: Settings) throws(UsageError) {
    pairs = try settings.count("pairs", in: 1...4000) ?? 1
    rate = try settings.rate("rate")
    window = try settings.count("window", in: 1...16_000) ?? 1000
    size = try settings.count("size", in: Payload.minimumBytes...65_536) ?? 128
    duration = try settings.time("duration", in: .milliseconds(100)...(.seconds(86_400))) ?? duration
    warmUp = try settings.time("warmup", in: .zero...(.seconds(3600))) ?? warmUp
    drain = try settings.time("drain", in: .zero...(.seconds(3600))) ?? drain
    usesUDP = try !settings.isOn("no-udp")
    keyPhaseDatagrams = try settings.integer("key-phase-packets", in: 1...4_194_304) ?? keyPhaseDatagrams
    if let cipher = try settings.choice("cipher", of: ["aes128", "chacha20"]) {
      guard usesUDP else { throw UsageError("--cipher is for datagrams: leave --no-udp out") }
      ciphers = [cipher == "aes128" ? .aes128GCM : .chaCha20Poly1305]
    }
    redundancy =
      switch try settings.choice("redundancy", of: ["off", "idle", "always"]) {
      case "off": .off
      case "always": .always
      default: .idle
      }
    printsJSON = try settings.isOn("json")
    let loss = try settings.number("loss", in: 0...0.99) ?? 0
    let delay = try settings.time("delay", in: .zero...(.seconds(10))) ?? .zero
    if loss > 0 || delay > .zero {
      guard usesUDP else { throw UsageError("--loss and --delay are for datagrams: leave --no-udp out") }
      let seed = try settings.integer("seed") ?? 1
      impairment = SIMPImpairment(loss: loss, delay: delay, seed: UInt64(seed))
    }
  }
}
