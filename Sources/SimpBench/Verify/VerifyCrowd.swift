internal import SimpConnection
internal import SimpCore
internal import SimpIO

/// The users of one process: lets them come, go and send as plan and seed have it.
final class VerifyCrowd: Sendable {
  private let context: VerifyContext
  private let home: Int
  private let users: [VerifyUser]
  private let recipients: [Int]
  private let isDraining = Locked(false)

  /// - Parameters:
  ///   - home: whose process this is, 0 for the run's own.
  ///   - life: the highest of a life of these devices' programs, before this process.
  init(_ context: VerifyContext, home: Int, life: UInt32 = 0) {
    self.context = context
    self.home = home
    let plan = context.plan
    users = (0..<plan.users).filter { plan.home(of: $0) == home }.map { VerifyUser($0, context: context, life: life) }
    recipients = (0..<plan.users).filter { !plan.sendsOnly($0) }
  }

  /// Runs until its task is cancelled, or, with `stopLoad`, until everything has ended.
  func run() async throws {
    for user in users { try user.come() }
    await withTaskGroup { group in
      group.addTask { await self.sendAll() }
      group.addTask { await self.sweepAll() }
      for user in users { group.addTask { await self.move(user) } }
    }
  }

  /// Nothing more is sent, and whoever is away comes back for good.
  func stopLoad() { isDraining.withLock { $0 = true } }

  /// Ends all lives.
  func leave() async {
    await withTaskGroup { group in
      for user in users { group.addTask { await user.leave() } }
    }
  }

  /// Messages that have no final receipt.
  var unfinished: Int { users.reduce(0) { $0 + $1.unfinished } }
  var online: Int { users.count(where: \.isOnline) }
  var count: Int { users.count }
  /// The first user whose connection ended although he did not want it to.
  var failure: String? {
    users.lazy.compactMap { user in user.failure.map { "\(user.name): \($0.code): \($0.message)" } }.first
  }

  // MARK: - Tasks

  private var goesOn: Bool { !Task.isCancelled && !isDraining.withLock { $0 } }

  private func random(_ purpose: UInt64) -> SplitMix {
    SplitMix(state: context.plan.seed &* 0x1_0000_01B3 &+ UInt64(home) &* 0x1000_0001 &+ purpose &* 0x9E37_79B9)
  }

  /// Messages leave in bursts from one user to another, as people and programs write, at the rate in the mean.
  private func sendAll() async {
    var random = random(1)
    let senders = users.filter { !context.plan.listensOnly($0.number) }
    let rate = context.plan.rate * context.plan.share(of: home)
    guard !senders.isEmpty, rate > 0 else { return }
    let start = Clock.now
    var sent = 0.0
    while goesOn {
      // What could not be sent, for nobody may, is not caught up in a flood.
      let due = Double((Clock.now - start).nanoseconds) / 1e9 * rate
      sent = max(sent, due - rate)
      while sent < due, goesOn {
        let sender = senders[random.below(senders.count)]
        let recipient = recipients[random.below(recipients.count)]
        let burst = 1 + random.below(random.below(4) == 0 ? 24 : 3)
        guard recipient != sender.number else { continue }
        for _ in 0..<burst {
          sent += 1
          guard sender.post(to: recipient, size: Self.size(&random)) else { break }
        }
      }
      await VerifyUser.pause(.milliseconds(5))
    }
  }

  /// Mostly short, some beyond a datagram, a few long.
  private static func size(_ random: inout SplitMix) -> Int {
    switch random.below(100) {
    case 0..<70: Payload.minimumBytes + random.below(200)
    case 70..<94: 200 + random.below(1000)
    case 94..<99: 1200 + random.below(7000)
    default: 8000 + random.below(40_000)
    }
  }

  private func sweepAll() async {
    while !Task.isCancelled {
      for user in users { user.sweep() }
      await VerifyUser.pause(.milliseconds(50))
    }
  }

  /// On for some seconds, away for a few, until the end of the load.
  private func move(_ user: VerifyUser) async {
    var random = random(UInt64(user.number) + 100)
    while goesOn {
      await sleep(seconds: 2 + random.fraction() * 12)
      guard goesOn, await user.go(patience: .seconds(3)) else { continue }
      await sleep(seconds: 0.2 + random.fraction() * 4)
      await comeBack(user)
    }
  }

  private func comeBack(_ user: VerifyUser) async {
    while !Task.isCancelled {
      if (try? user.come()) != nil { return }
      await VerifyUser.pause(.milliseconds(100))
    }
  }

  private func sleep(seconds: Double) async {
    let deadline = Clock.now + .milliseconds(Int64(seconds * 1000))
    while goesOn, Clock.now < deadline { await VerifyUser.pause(.milliseconds(50)) }
  }
}
