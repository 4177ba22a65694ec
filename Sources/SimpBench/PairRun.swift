internal import SimpAccess
internal import SimpConnection
internal import SimpCore
internal import SimpIO
internal import SimpSupport
internal import SimpToken

/// One run of `pair`: connects, warms up, measures, drains, reports.
struct PairRun {
  private let plan: PairPlan
  private let place: Place
  /// Tells this run's users and messages from those of others on the same server.
  private let run: UInt32

  init(_ plan: PairPlan, place: Place) {
    self.plan = plan
    self.place = place
    run = UInt32(truncatingIfNeeded: RandomBytes.uint64()) & 0xFF_FFFF
  }

  /// - Returns: the exit status.
  /// - Throws: when the run could not begin.
  func run() async throws -> Int32 {
    let needed = plan.pairs * 4 + 64
    let limit = ProcessUsage.raiseFileLimit()
    guard limit >= needed else {
      throw PrivateServer.Failure(
        description: "\(plan.pairs) pairs need \(needed) open files, the limit is \(limit): raise it with ulimit -n")
    }
    let pairs = try (0..<plan.pairs).map { try makePair(UInt32($0)) }
    let states = pairs[0].sender.states
    let recipients = pairs.map { pair in Task { await pair.receive() } }
    let report: PairReport
    do {
      try await connect(pairs)
      report = try await measure(pairs, session: await session(states))
    } catch {
      await close(pairs)
      throw error
    }
    await close(pairs)
    for recipient in recipients { await recipient.value }
    return try report.print(asJSON: plan.printsJSON)
  }

  // MARK: - Before

  private func makePair(_ number: UInt32) throws -> Pair {
    let hex = String(run | 1 << 24, radix: 16).dropFirst()
    let names = (sender: "bench-\(hex)-s\(number)", recipient: "bench-\(hex)-r\(number)")
    let check = ConversationCheck(run: run, sender: number, conversation: number, senderName: names.sender)
    return Pair(
      check: check, sender: try connection(names.sender, sendsOnly: true, seed: UInt64(number) * 2),
      recipient: try connection(names.recipient, sendsOnly: false, seed: UInt64(number) * 2 + 1),
      recipientName: names.recipient, size: plan.size)
  }

  private func connection(_ user: String, sendsOnly: Bool, seed: UInt64) throws -> SIMPConnection {
    var configuration = SIMPConnection.Configuration()
    configuration.software = "simp-bench"
    configuration.tls = SIMPConnection.Configuration.TLS(place.trust)
    configuration.usesUDP = plan.usesUDP
    configuration.ciphers = plan.ciphers
    configuration.keyPhaseDatagrams = plan.keyPhaseDatagrams
    configuration.redundancy = plan.redundancy
    configuration.isSendOnly = sendsOnly
    configuration.connectTimeout = .seconds(30)
    configuration.impairment = plan.impairment
    configuration.impairment?.seed += seed
    let token = try Tokens.mint(user: user, key: place.key, ttlSeconds: 100_000, now: EventLoop.wallClockSeconds)
    return try SIMPConnection(to: place.address, token: token, configuration: configuration)
  }

  /// Logs all in, and waits up to 10 s until their datagrams pass.
  private func connect(_ pairs: [Pair]) async throws {
    let connections = pairs.flatMap { [$0.recipient, $0.sender] }
    var rest = connections[...]
    while !rest.isEmpty {
      // Not all at once: a server's queue of connections to accept is short.
      let some = rest.prefix(100)
      rest = rest.dropFirst(100)
      for connection in some { connection.start() }
      for connection in some { try await connection.connected() }
    }
    guard plan.usesUDP else { return }
    let deadline = Clock.now + .seconds(10)
    while Clock.now < deadline {
      if connections.allSatisfy({ $0.statistics.path == .up }) { return }
      try await Task.sleep(for: .milliseconds(10))
    }
    let down = connections.count { $0.statistics.path != .up }
    Terminal.say("simp-bench: \(down) of \(connections.count) connections have no UDP path; they go by TCP")
  }

  /// The first session: how it is encrypted.
  private func session(_ states: SIMPConnection.States) async -> SIMPSession? {
    for await state in states {
      if case .connected(let session) = state { return session }
    }
    return nil
  }

  // MARK: - Measuring

  private func measure(_ pairs: [Pair], session: SIMPSession?) async throws -> PairReport {
    // The first message of each pair goes alone: it opens the conversation on all sides.
    for pair in pairs { _ = pair.post(due: Clock.now) }
    await drain(pairs, timeout: .seconds(10))
    let start = Clock.now + .milliseconds(20)
    let window = Pair.Window(
      begin: start + Interval(plan.warmUp), end: start + Interval(plan.warmUp) + Interval(plan.duration))
    for pair in pairs { pair.setWindow(window) }
    let pacer = try Pacer(pairs)
    let usage = Task { await UsageMeter(serverPID: place.pid).measure(window) }
    let progress = Progress.show {
      var verdict = Verdict()
      for pair in pairs { verdict.add(pair.verdict) }
      return verdict
    }
    let unsent: UInt64 = await withTaskCancellationHandler {
      if let rate = plan.rate {
        return await pacer.run(Schedule(start: start, rate: rate, pairs: pairs.count), until: window.end)
      }
      for pair in pairs { pair.beginClosedLoop(count: plan.window) }
      await pacer.keepUp(until: window.end)
      return 0
    } onCancel: {
      pacer.stop()
    }
    pacer.close()
    let isInterrupted = Task.isCancelled
    if isInterrupted { usage.cancel() }
    await drain(pairs, timeout: isInterrupted ? .seconds(2) : plan.drain)
    progress?.cancel()
    await progress?.value
    await waitForReceipts(pairs)
    var report = PairReport(
      plan: plan, server: place.name, unsent: unsent, usage: await usage.value, isInterrupted: isInterrupted,
      cipher: session?.cipher, tls: session?.tls)
    for pair in pairs { report.add(pair) }
    return report
  }

  /// Waits until everything has arrived, or the time is over, or a connection is.
  private func drain(_ pairs: [Pair], timeout: Duration) async {
    let deadline = Clock.now + Interval(timeout)
    while Clock.now < deadline, pairs.contains(where: { $0.underWay > 0 && $0.failure == nil }) {
      await Self.pause(.milliseconds(5))
    }
  }

  /// The last receipts come up to 100 ms later; and a copy that should not be shown has time to be.
  private func waitForReceipts(_ pairs: [Pair]) async {
    let deadline = Clock.now + .seconds(3)
    let patience = Interval.milliseconds(200) + Interval(plan.impairment?.delay ?? .zero) * 4
    let earliest = Clock.now + patience
    while Clock.now < earliest
      || Clock.now < deadline && pairs.contains(where: { $0.sender.statistics.unfinished > 0 && $0.failure == nil })
    {
      await Self.pause(.milliseconds(10))
    }
  }

  /// Sleeps, also in a cancelled task.
  private static func pause(_ time: Duration) async {
    await Task.detached { try? await Task.sleep(for: time) }.value
  }

  private func close(_ pairs: [Pair]) async {
    await withTaskGroup { group in
      for pair in pairs {
        group.addTask { await pair.sender.close() }
        group.addTask { await pair.recipient.close() }
      }
    }
  }
}

extension Interval {
  init(_ duration: Duration) {
    let (seconds, attoseconds) = duration.components
    self.init(nanoseconds: seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
  }
}

/// What the processes used in the measured time, in seconds of processor time.
struct UsageMeter: Sendable {
  struct Usage: Sendable {
    var own = 0.0
    var server: Double?
  }

  let serverPID: Int32?

  func measure(_ window: Pair.Window) async -> Usage {
    let before = await reading(at: window.begin)
    let after = await reading(at: window.end)
    var usage = Usage(own: after.own - before.own)
    if let first = before.server, let last = after.server { usage.server = last - first }
    return usage
  }

  private func reading(at instant: Instant) async -> Usage {
    try? await Task.sleep(for: .nanoseconds(max(0, (instant - Clock.now).nanoseconds)))
    return Usage(own: ProcessUsage.own, server: serverPID.flatMap(ProcessUsage.of))
  }
}
