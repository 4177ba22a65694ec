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
  var impairment: SIMPImpairment?
  var printsJSON = false

  init() {}

  init(_ settings: Settings) throws(UsageError) {
    pairs = try Self.count("pairs", settings, in: 1...4000) ?? 1
    rate = try settings.string("rate").map { text throws(UsageError) in
      guard let rate = Self.number(text), rate >= 0.01, rate <= 10_000_000 else {
        throw UsageError("--rate: \(quoted(text)) is no number of messages a second, 0.01 to 10M")
      }
      return rate
    }
    window = try Self.count("window", settings, in: 1...16_000) ?? 1000
    size = try Self.count("size", settings, in: Payload.minimumBytes...65_536) ?? 128
    duration = try Self.time("duration", settings, in: .milliseconds(100)...(.seconds(86_400))) ?? duration
    warmUp = try Self.time("warmup", settings, in: .zero...(.seconds(3600))) ?? warmUp
    drain = try Self.time("drain", settings, in: .zero...(.seconds(3600))) ?? drain
    usesUDP = try !settings.isOn("no-udp")
    printsJSON = try settings.isOn("json")
    let loss = try settings.number("loss", in: 0...0.99) ?? 0
    let delay = try Self.time("delay", settings, in: .zero...(.seconds(10))) ?? .zero
    if loss > 0 || delay > .zero {
      guard usesUDP else { throw UsageError("--loss and --delay are for datagrams: leave --no-udp out") }
      let seed = try settings.integer("seed") ?? 1
      impairment = SIMPImpairment(loss: loss, delay: delay, seed: UInt64(seed))
    }
  }

  private static func count(
    _ name: String, _ settings: Settings, in range: ClosedRange<Int>
  ) throws(UsageError) -> Int? {
    guard let text = settings.string(name) else { return nil }
    guard let value = number(text), let count = Int(exactly: value), range.contains(count) else {
      throw UsageError("--\(name): \(quoted(text)) is no whole number from \(range.lowerBound) to \(range.upperBound)")
    }
    return count
  }

  /// A number alone is what the letter of the flag suggests: `-d 10` are seconds, `--delay 20` milliseconds.
  private static func time(
    _ name: String, _ settings: Settings, in range: ClosedRange<Duration>
  ) throws(UsageError) -> Duration? {
    guard let text = settings.string(name) else { return nil }
    let isBare = !text.isEmpty && text.allSatisfy { $0.isASCII && $0.isNumber }
    let unit = name == "delay" ? "ms" : "s"
    do throws(UsageError) {
      let time = try DurationText.parse(isBare ? text + unit : text)
      guard range.contains(time) else {
        let limits = "\(DurationText.describe(range.lowerBound)) to \(DurationText.describe(range.upperBound))"
        throw UsageError("\(text) is out of the range of \(limits)")
      }
      return time
    } catch {
      throw UsageError("--\(name): \(error)")
    }
  }

  /// `50k` is 50 000, `1.5M` 1 500 000.
  static func number(_ text: String) -> Double? {
    let factors: [Character: Double] = ["k": 1000, "K": 1000, "M": 1_000_000]
    if let last = text.last, let factor = factors[last] { return Double(text.dropLast()).map { $0 * factor } }
    return Double(text)
  }
}
