internal import Glibc
internal import SimpConnection
internal import SimpCore
internal import SimpIO
internal import SimpSupport

/// One run of `verify`: users and clients begin, faults are made, everything is drained, and the history judged.
struct VerifyRun {
  private let plan: VerifyPlan
  private let place: Place
  private let ground: VerifyGround

  init(_ plan: VerifyPlan, place: Place, ground: VerifyGround) {
    self.plan = plan
    self.place = place
    self.ground = ground
  }

  /// - Returns: the exit status.
  /// - Throws: when the run could not begin.
  func run() async throws -> Int32 {
    let needed = plan.users * 8 + 256
    let limit = ProcessUsage.raiseFileLimit()
    guard limit >= needed else {
      throw HistoryFile.Failure(
        description: "\(plan.users) users need \(needed) open files, the limit is \(limit): raise it with ulimit -n")
    }
    let file = try plan.history.map { path in try HistoryFile(path: path, isNew: true) }
    let recorder = HistoryRecorder(epoch: Clock.now, file: file)
    let run = UInt32(truncatingIfNeeded: RandomBytes.uint64()) & 0xFF_FFFF
    recorder.record(.run(id: run, seed: plan.seed))
    let loop = try EventLoop()
    loop.startThread(name: "verify")
    defer { loop.close() }
    var report = VerifyReport(plan: plan, server: place.name)
    do {
      let relay = try await ground.startRelay(on: loop, seed: plan.seed)
      let world = try makeWorld(recorder, run: run, loop: loop, relay: relay)
      report = await measure(world, report)
      for client in world.clients { await client.close() }
      await relay?.close()
    }
    return try report.print(asJSON: plan.printsJSON)
  }

  /// What takes part in a run.
  private struct World {
    var crowd: VerifyCrowd
    var clients: [ClientProcess]
    var faults: FaultMaker
    var recorder: HistoryRecorder
  }

  private func makeWorld(_ recorder: HistoryRecorder, run: UInt32, loop: EventLoop, relay: Relay?) throws -> World {
    let address = relay == nil ? place.address : ground.relayAddress
    let last = Locked(UInt32(plan.users))
    let context = VerifyContext(
      plan: plan, run: run, address: address, key: place.key, trust: place.trust, directory: ground.directory,
      record: { recorder.record($0) },
      nextDevice: {
        last.withLock { last in
          last += 1
          return last
        }
      })
    var arguments = ["--server", address, "--key", ground.keyPath(place)] + place.trust.arguments
    arguments += [
      "--users", "\(plan.users)", "--rate", "\(plan.rate)", "--seed", "\(plan.seed)", "--stores", "\(plan.stores)",
      "--clients", "\(plan.clients)", "--run", "\(run)", "--epoch", "\(recorder.epoch.nanoseconds)", "--directory",
      ground.directory,
    ]
    if !plan.usesUDP { arguments.append("--no-udp") }
    let clients = (0..<plan.clients).map { index in
      ClientProcess(
        home: index + 1, loop: loop, directory: ground.directory, arguments: arguments,
        clock: ground.clock, recorder: recorder)
    }
    return World(
      crowd: VerifyCrowd(context, home: 0), clients: clients,
      faults: FaultMaker(
        plan, server: place.server, relay: relay, clients: clients, clock: ground.clock, recorder: recorder),
      recorder: recorder)
  }

  // MARK: - The course of a run

  private func measure(_ world: World, _ initial: VerifyReport) async -> VerifyReport {
    var report = initial
    let recorder = world.recorder
    let progress = VerifyProgress.show(recorder)
    // A task of its own: what a signal cancels is the load, not those who have to be heard to the end.
    let load = Task.detached { try await world.crowd.run() }
    let reader = Task.detached {
      while !Task.isCancelled {
        for client in world.clients { await client.poll() }
        await VerifyUser.pause(.milliseconds(50))
      }
    }
    do {
      for client in world.clients { try await client.start() }
      world.faults.start()
    } catch {
      report.failures.append("\(error)")
    }
    await waitForEndOfLoad(world, &report)
    report.isInterrupted = Task.isCancelled
    report.loadSeconds = Double((Clock.now - recorder.epoch).nanoseconds) / 1e9
    report.failures += await world.faults.stop()
    world.crowd.stopLoad()
    ground.tell(VerifyClientCommand.stopLoad)
    let end = await drain(world, patience: report.isInterrupted ? .seconds(2) : plan.drain)
    if end == .timeout, !report.isInterrupted {
      report.failures.append(
        "after \(DurationText.describe(plan.drain)) without faults not all is answered: \(world.crowd.unfinished) "
          + "messages of this process have no final receipt, \(recorder.progress.underWay) of all were not shown")
    }
    ground.tell(VerifyClientCommand.end)
    for client in world.clients { await client.waitForEnd(.seconds(30)) }
    reader.cancel()
    await reader.value
    for client in world.clients {
      await client.poll()
      if !report.isInterrupted, let failure = client.failure { report.failures.append(failure) }
    }
    load.cancel()
    do { try await load.value } catch { report.failures.append("\(error)") }
    await world.crowd.leave()
    if let failure = world.crowd.failure { report.failures.append(failure) }
    recorder.record(.finish(report.isInterrupted ? .interrupted : end))
    progress?.cancel()
    await progress?.value
    if let trouble = recorder.trouble { report.failures.append("the history is not whole: \(trouble)") }
    report.verdict = recorder.verdict
    report.memory = ProcessUsage.resident(getpid()) ?? 0
    return report
  }

  private func waitForEndOfLoad(_ world: World, _ report: inout VerifyReport) async {
    let deadline = world.recorder.epoch + Interval(plan.duration)
    while !Task.isCancelled, report.failures.isEmpty {
      if let messages = plan.messages, world.recorder.progress.sent >= messages { return }
      if Clock.now >= deadline { return }
      if world.crowd.failure != nil || world.clients.contains(where: { $0.failure != nil }) { return }
      try? await Task.sleep(for: .milliseconds(50))
    }
  }

  /// Until everything that was taken was shown or given up, and every sender knows. Where nothing is heard for long
  /// while every sender has his answer, what is missing will not come.
  private func drain(_ world: World, patience: Duration) async -> HistoryEvent.Finish {
    let deadline = Clock.now + Interval(patience)
    var last = world.recorder.progress
    var lastChange = Clock.now
    while Clock.now < deadline {
      await VerifyUser.pause(.milliseconds(50))
      let now = world.recorder.progress
      if now != last { (last, lastChange) = (now, Clock.now) }
      let isAnswered = world.crowd.unfinished == 0 && world.crowd.online == world.crowd.count
      let quiet: Interval = now.underWay == 0 ? Self.quiet : Self.longQuiet
      if isAnswered, Clock.now - lastChange > quiet { return .drained }
    }
    return .timeout
  }

  /// A copy that should not be shown has this time to be.
  private static let quiet = Interval.seconds(1)
  private static let longQuiet = Interval.seconds(20)
}
