internal import SimpSupport

/// What a run of `verify` is asked to do. Users, their ways and their load follow from it and its seed alone: the
/// processes of a run each make them for themselves.
struct VerifyPlan: Sendable {
  var users = 40
  /// Messages in all; nil: as many as the time brings.
  var messages: Int?
  /// Messages a second, in all.
  var rate = 200.0
  var duration: Duration = .seconds(30)
  var drain: Duration = .seconds(120)
  var seed: UInt64 = 1
  /// Users of this process with a store.
  var stores = 8
  /// Processes of clients, which all have stores and acknowledge by hand.
  var clients = 0
  var usesUDP = true
  /// Mean time from one fault of a kind to the next.
  var faults: [FaultKind: Duration] = [:]
  var history: String?
  var logs: String?
  var printsJSON = false

  static let loadFlags = [
    Flag("users", short: "u", placeholder: "COUNT", default: "40", help: "how many users, 4 to 10000"),
    Flag("messages", short: "m", placeholder: "COUNT", help: "ends the load after so many (none: --duration does)"),
    Flag("rate", short: "r", placeholder: "RATE", help: "messages/s in all (none: --messages over the time, or 200)"),
    Flag("duration", short: "d", placeholder: "TIME", default: "30s", help: "of the load and the faults"),
    Flag("seed", placeholder: "NUMBER", default: "1", help: "of users, conversations, sizes and faults"),
    Flag("stores", placeholder: "COUNT", help: "users whose outbox and inbox are files (none: a fifth)"),
    Flag("clients", placeholder: "COUNT", help: "processes of clients with stores (none: 4 if faults need them)"),
    Flag("no-udp", help: "TCP only"),
  ]

  static let flags =
    loadFlags
    + FaultKind.allCases.map { Flag($0.rawValue, placeholder: "TIME", help: "\($0.help); so often in the mean") } + [
      Flag("chaos", help: "all of these; one that is given beside it has its own time, 0: not at all"),
      Flag("drain", placeholder: "TIME", default: "2m", help: "wait at the end, without faults, until all is answered"),
      Flag("history", placeholder: "FILE", help: "write the history here"),
      Flag("check", placeholder: "FILE", help: "no run: judge a written history"),
      Flag("server-logs", placeholder: "DIR", help: "keep the private server's logs here, a file for each start"),
      Flag("json", help: "one JSON object on standard output"),
    ]

  init() {}

  init(load settings: Settings) throws(UsageError) {
    users = try settings.count("users", in: 4...10_000) ?? users
    messages = try settings.count("messages", in: 1...100_000_000)
    duration = try settings.time("duration", in: .milliseconds(100)...(.seconds(86_400))) ?? duration
    let given = try settings.rate("rate")
    rate = given ?? messages.map { max(0.01, Double($0) / duration.inSeconds) } ?? rate
    // A number of messages and a rate say when it ends, unless that is said as well.
    if let messages, given != nil, settings.string("duration") == nil {
      duration = .seconds(Int(Double(messages) / rate * 2) + 10)
    }
    seed = UInt64(try settings.integer("seed") ?? 1)
    usesUDP = try !settings.isOn("no-udp")
    stores = try settings.count("stores", in: 0...users) ?? users / 5
    clients = try settings.count("clients", in: 0...64) ?? 0
  }

  init(_ settings: Settings, isPrivate: Bool) throws(UsageError) {
    try self.init(load: settings)
    drain = try settings.time("drain", in: .zero...(.seconds(86_400))) ?? drain
    history = settings.string("history")
    logs = settings.string("server-logs")
    printsJSON = try settings.isOn("json")
    guard isPrivate || logs == nil else {
      throw UsageError("--server-logs is for a private server: leave --server out")
    }
    let isChaos = try settings.isOn("chaos")
    for kind in FaultKind.allCases {
      let given = try settings.time(kind.rawValue, in: .zero...(.seconds(86_400)))
      if isChaos { faults[kind] = .seconds(kind.chaosPeriod) }
      if let given { faults[kind] = given == .zero ? nil : given }
      guard faults[kind] != nil, let obstacle = obstacle(kind, isPrivate: isPrivate) else { continue }
      // What was asked for by name has to be had; of all of them, what can be.
      guard given == nil else { throw UsageError("--\(kind.rawValue): \(obstacle)") }
      faults[kind] = nil
    }
    if clients == 0, settings.string("clients") == nil, faults[.clientKill] != nil || faults[.clockStep] != nil {
      clients = min(4, users / 4)
    }
    if faults.keys.contains(where: \.needsClients), clients == 0 { throw UsageError("--client-kill needs --clients") }
  }

  /// Why a fault cannot be made here.
  private func obstacle(_ kind: FaultKind, isPrivate: Bool) -> String? {
    if kind.needsPrivateServer, !isPrivate { return "is for a private server: leave --server out" }
    if kind.needsRelay, kind != .tcpCut, !usesUDP { return "is for datagrams: leave --no-udp out" }
    if kind == .clockStep, FalseClock.library == nil { return FalseClock.remedy }
    return nil
  }

  // MARK: - Users

  /// Whose process a user lives in: 0 for the run's own, 1 and up for the processes of clients.
  func home(of user: Int) -> Int { clients > 0 && user % 4 == 3 ? user / 4 % clients + 1 : 0 }

  /// Nothing comes to one of nine, another one of nine never sends.
  func sendsOnly(_ user: Int) -> Bool { user % 9 == 5 }
  func listensOnly(_ user: Int) -> Bool { user % 9 == 7 }

  /// Users of a process of clients have stores; of the others every second one, as far as `stores` goes.
  func hasStore(_ user: Int) -> Bool {
    home(of: user) > 0 || (user % 2 == 0 && user / 2 < stores) || (user % 2 == 1 && users / 2 + user / 2 < stores)
  }

  /// The processes of clients may be killed at any instant: only by hand it is known what they were shown.
  func acknowledgesByHand(_ user: Int) -> Bool { home(of: user) > 0 || (hasStore(user) && user / 2 % 2 == 0) }

  /// The share of the load that a process makes.
  func share(of home: Int) -> Double {
    let senders = (0..<users).filter { !listensOnly($0) }
    return Double(senders.count { self.home(of: $0) == home }) / Double(max(1, senders.count))
  }

  static func name(_ user: Int, run: UInt32) -> String {
    "verify-\(String(run | 1 << 24, radix: 16).dropFirst())-\(user)"
  }
}
