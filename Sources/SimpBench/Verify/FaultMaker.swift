internal import Glibc
internal import SimpConnection
internal import SimpCore
internal import SimpIO

/// Makes the faults of a run: each kind by itself, at times and for lengths that the seed gives, so that they overlap as
/// they will. What each began, it also ends, whenever the run does.
final class FaultMaker: Sendable {
  private struct State {
    var tasks: [Task<Void, Never>] = []
    var failures: [String] = []
  }

  private let plan: VerifyPlan
  private let server: PrivateServer?
  private let relay: Relay?
  private let clients: [ClientProcess]
  private let clock: FalseClock?
  private let recorder: HistoryRecorder
  private let state = Locked(State())

  init(
    _ plan: VerifyPlan, server: PrivateServer?, relay: Relay?, clients: [ClientProcess], clock: FalseClock?,
    recorder: HistoryRecorder
  ) {
    self.plan = plan
    self.server = server
    self.relay = relay
    self.clients = clients
    self.clock = clock
    self.recorder = recorder
  }

  func start() {
    let tasks = plan.faults.map { kind, period in Task.detached { await self.make(kind, every: period) } }
    state.withLock { $0.tasks = tasks }
  }

  /// Ends what is under way: everything works again when this returns.
  ///
  /// - Returns: what could not be mended.
  func stop() async -> [String] {
    let tasks = state.withLock { $0.tasks }
    for task in tasks { task.cancel() }
    for task in tasks { await task.value }
    return state.withLock { $0.failures }
  }

  private func make(_ kind: FaultKind, every period: Duration) async {
    let index = UInt64(FaultKind.allCases.firstIndex(of: kind) ?? 0)
    var random = SplitMix(state: plan.seed &* 0x9E37_79B9_7F4A_7C15 &+ index)
    // The first one comes early enough that there is one.
    let first = min(period.inSeconds, plan.duration.inSeconds * 0.7)
    await sleep(first * (0.2 + 0.6 * random.fraction()))
    while !Task.isCancelled {
      await make(kind, &random)
      await sleep(period.inSeconds * (0.5 + random.fraction()))
    }
  }

  private func make(_ kind: FaultKind, _ random: inout SplitMix) async {
    switch kind {
    case .serverKill: await killServer(&random)
    case .serverStop: await stopServer(seconds: 0.2 + 3.8 * random.fraction())
    case .redisKill: await signalRedis(kind, seconds: 0)
    case .redisStop: await signalRedis(kind, seconds: 0.2 + 3.8 * random.fraction())
    case .udpBlackhole:
      await last(kind, seconds: 0.5 + 7.5 * random.fraction()) {
        await $0.setBlackhole(true)
      } end: {
        await $0.setBlackhole(false)
      }
    case .tcpCut: await cut(random.below(3) == 0 ? 1 : random.fraction())
    case .rebind: await rebind(random.below(3) == 0 ? 1 : random.fraction())
    case .impair: await impair(&random)
    case .clientKill: await killClient(&random)
    case .clockStep: stepClock(&random)
    }
  }

  // MARK: - Processes

  private func killServer(_ random: inout SplitMix) async {
    let away = 2 * random.fraction() * random.fraction()
    guard let server else { return }
    begin(.serverKill, "back after \(Int(away * 1000)) ms")
    await server.killAtOnce()
    await sleep(away)
    // Also when the run is over: those who wait for it have to be answered.
    for attempt in 1...5 {
      let failure: String? = await Task.detached {
        do {
          try await server.launch()
          return nil
        } catch {
          return "\(error)"
        }
      }.value
      guard let failure else { break }
      await server.killAtOnce()
      if attempt == 5 { state.withLock { $0.failures.append("the server did not start again: \(failure)") } }
    }
    end(.serverKill)
  }

  private func stopServer(seconds: Double) async {
    guard let server, let pid = await server.signal(SIGSTOP) else { return await retry(.serverStop, seconds) }
    begin(.serverStop, "process \(pid), for \(Int(seconds * 1000)) ms")
    await sleep(seconds)
    // One that was killed meanwhile, and its successor, take no harm by it.
    _ = await server.signal(SIGCONT)
    end(.serverStop)
  }

  private func signalRedis(_ kind: FaultKind, seconds: Double) async {
    guard let server, let pid = server.redisProcess else { return await retry(kind, seconds) }
    begin(kind, "process \(pid)" + (seconds > 0 ? ", for \(Int(seconds * 1000)) ms" : ""))
    if kind == .redisKill {
      kill(pid, SIGKILL)
    } else {
      kill(pid, SIGSTOP)
      await sleep(seconds)
      if server.redisProcess == pid { kill(pid, SIGCONT) }
    }
    end(kind)
  }

  /// There is nobody to be hit at present: another fault was there first.
  private func retry(_ kind: FaultKind, _ seconds: Double) async {
    await sleep(0.3)
    guard !Task.isCancelled else { return }
    switch kind {
    case .serverStop: await stopServer(seconds: seconds)
    default: await signalRedis(kind, seconds: seconds)
    }
  }

  private func killClient(_ random: inout SplitMix) async {
    let client = clients[random.below(clients.count)]
    let away = random.below(2) == 0 ? 0 : random.fraction()
    begin(.clientKill, "process of clients \(client.home), back after \(Int(away * 1000)) ms")
    await client.killAtOnce()
    await sleep(away)
    do {
      try await client.start()
    } catch {
      state.withLock { $0.failures.append("\(error)") }
    }
    end(.clientKill)
  }

  private func stepClock(_ random: inout SplitMix) {
    // Seconds mostly, now and then a quarter of an hour, both ways.
    let reach = random.below(4) == 0 ? 900 : 30
    let offset = random.below(2 * reach + 1) - reach
    begin(.clockStep, "to \(offset) s off")
    do {
      try clock?.set(offset: offset)
    } catch {
      state.withLock { $0.failures.append("\(error)") }
    }
    end(.clockStep)
  }

  // MARK: - Network

  private func last(
    _ kind: FaultKind, seconds: Double, _ detail: String = "", _ begin: (Relay) async -> Void,
    end: (Relay) async -> Void
  ) async {
    guard let relay else { return }
    self.begin(kind, "for \(Int(seconds * 1000)) ms" + detail)
    await begin(relay)
    await sleep(seconds)
    await end(relay)
    self.end(kind)
  }

  private func cut(_ share: Double) async {
    guard let relay else { return }
    await hit(.tcpCut) { await relay.cut(share: share) }
  }

  private func rebind(_ share: Double) async {
    guard let relay else { return }
    await hit(.rebind) { await relay.rebind(share: share) }
  }

  /// Until something was there to be hit.
  private func hit(_ kind: FaultKind, _ body: () async -> Int) async {
    while !Task.isCancelled {
      let count = await body()
      if count > 0 {
        begin(kind, "\(count) of them")
        return end(kind)
      }
      await sleep(0.2)
    }
  }

  private func impair(_ random: inout SplitMix) async {
    let impairment = Relay.Impairment(
      loss: 0.3 * random.fraction() * random.fraction(), duplication: 0.1 * random.fraction(),
      delay: .milliseconds(Int64(60 * random.fraction())), jitter: .milliseconds(Int64(40 * random.fraction())))
    let detail =
      ": \(Int(impairment.loss * 100)) % lost, \(Int(impairment.duplication * 100)) % doubled, held up by "
      + "\(Int(impairment.delay.milliseconds)) to \(Int((impairment.delay + impairment.jitter).milliseconds)) ms"
    await last(.impair, seconds: 1 + 9 * random.fraction(), detail) {
      await $0.setImpairment(impairment)
    } end: {
      await $0.setImpairment(nil)
    }
  }

  // MARK: - History

  private func begin(_ kind: FaultKind, _ detail: String) {
    recorder.record(.fault(kind: kind.rawValue, isBegin: true, detail: detail))
  }

  private func end(_ kind: FaultKind) {
    recorder.record(.fault(kind: kind.rawValue, isBegin: false, detail: ""))
  }

  /// Ends early when the run does.
  private func sleep(_ seconds: Double) async { try? await Task.sleep(for: .milliseconds(Int64(seconds * 1000))) }
}
