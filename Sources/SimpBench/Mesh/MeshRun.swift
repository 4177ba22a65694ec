internal import Glibc
internal import SimpAccess
internal import SimpConnection
internal import SimpCore
internal import SimpIO
internal import SimpSupport

/// One run of `mesh`: logs all in, loads, drains, reports.
struct MeshRun {
  /// What the run could not begin for.
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  private let plan: MeshPlan
  private let place: Place

  init(_ plan: MeshPlan, place: Place) {
    self.plan = plan
    self.place = place
  }

  private var serverPID: Int32? { place.pid ?? plan.serverPID }

  /// - Returns: the exit status.
  /// - Throws: when the run could not begin.
  func run() async throws -> Int32 {
    let needed = plan.connections * (plan.usesUDP ? 2 : 1) + 64
    let limit = ProcessUsage.raiseFileLimit()
    guard limit >= needed else {
      throw Failure(
        description: "\(plan.connections) connections need \(needed) open files, the limit is \(limit): raise it with "
          + "ulimit -n" + (plan.usesUDP ? ", or leave UDP out with --no-udp" : ""))
    }
    if let pid = serverPID, ProcessUsage.of(pid) == nil {
      throw Failure(description: "--server-pid \(pid): there is no such process")
    }
    let loop = try EventLoop()
    loop.startThread(name: "mesh")
    defer { loop.close() }
    let mesh = try await makeMesh(on: loop)
    do {
      let report = try await measure(mesh)
      await end(mesh)
      return try report.print(asJSON: plan.printsJSON)
    } catch {
      await end(mesh)
      throw error
    }
  }

  private func makeMesh(on loop: EventLoop) async throws -> Mesh {
    let name = try ServerName(parsing: place.address, defaultPort: 7467)
    let trust = try SharedTrust.context(SIMPConnection.Configuration.TLS(place.trust))
    let found: Result<PeerAddress, IOError> = await withCheckedContinuation { continuation in
      loop.execute {
        Resolver.resolve(host: name.host, port: name.port, loop: loop) { result in
          continuation.resume(returning: result.map { $0[0] })
        }
      }
    }
    let address = try found.get()
    guard trust != nil || address.isLoopback || place.trust == .off(evenBeyondLoopback: true) else {
      throw SIMPError(.untrusted, "\(name) is another machine: leave TLS on, or add --insecure on a network you trust")
    }
    let run = UInt32(truncatingIfNeeded: RandomBytes.uint64()) & 0xFF_FFFF
    return await withCheckedContinuation { continuation in
      loop.execute {
        let mesh = Mesh(plan, place: place, name: name, server: address, trust: trust, run: run, loop: loop)
        mesh.start()
        continuation.resume(returning: mesh)
      }
    }
  }

  // MARK: - Measuring

  private func measure(_ mesh: Mesh) async throws -> MeshReport {
    var report = MeshReport(plan: plan, server: place.name)
    let before = memory
    let began = Clock.now
    try await waitForLogins(mesh)
    report.loginsPerSecond = Double(plan.connections) / max(1e-9, Double((Clock.now - began).nanoseconds) / 1e9)
    if plan.usesUDP { try await waitForPaths(mesh) }
    let after = memory
    report.ownMemory = (after.own - before.own) / plan.connections
    if let first = before.server, let last = after.server { report.serverMemory = (last - first) / plan.connections }

    let usage = (own: ProcessUsage.own, server: serverPID.flatMap(ProcessUsage.of))
    let start = Clock.now
    let end = start + Interval(plan.duration)
    await mesh.onLoop { $0.beginLoad(at: start, until: end) }
    let progress = Progress.show { await mesh.onLoop { $0.snapshot(isFull: false).verdict } }
    while Clock.now < end, !Task.isCancelled, await mesh.onLoop({ $0.snapshot(isFull: false).failure }) == nil {
      let rest = min((end - Clock.now).nanoseconds, 200_000_000)
      try? await Task.sleep(for: .nanoseconds(max(0, rest)))
    }
    report.isInterrupted = Task.isCancelled
    await mesh.onLoop { $0.endLoad() }
    await drain(mesh, timeout: report.isInterrupted ? .seconds(2) : plan.drain)
    progress?.cancel()
    await progress?.value
    report.usage.own = ProcessUsage.own - usage.own
    if let first = usage.server, let last = serverPID.flatMap(ProcessUsage.of) { report.usage.server = last - first }
    await waitForReceipts(mesh)
    report.add(await mesh.onLoop { $0.snapshot() }, start: start)
    return report
  }

  private var memory: (own: Int, server: Int?) {
    (ProcessUsage.resident(getpid()) ?? 0, serverPID.flatMap(ProcessUsage.resident))
  }

  /// Until all are logged in; a minute without one more login is too long.
  private func waitForLogins(_ mesh: Mesh) async throws {
    var (best, since) = (0, Clock.now)
    while true {
      let snapshot = await mesh.onLoop { $0.snapshot() }
      if let failure = snapshot.failure { throw failure }
      if snapshot.loggedIn == plan.connections { return }
      if snapshot.loggedIn > best { (best, since) = (snapshot.loggedIn, Clock.now) }
      guard Clock.now - since < .seconds(60), best > 0 || Clock.now - since < .seconds(15) else {
        let reason = snapshot.lastLoss.map { ": \($0.message)" } ?? ""
        throw SIMPError(.connectFailed, "\(best) of \(plan.connections) could log in\(reason)")
      }
      try await Task.sleep(for: .milliseconds(5))
    }
  }

  /// Up to 10 s, until datagrams pass for all.
  private func waitForPaths(_ mesh: Mesh) async throws {
    let deadline = Clock.now + .seconds(10)
    while Clock.now < deadline {
      if await mesh.onLoop({ $0.snapshot().pathsUp }) == plan.connections { return }
      try await Task.sleep(for: .milliseconds(10))
    }
    let up = await mesh.onLoop { $0.snapshot().pathsUp }
    Terminal.say(
      "simp-bench: \(plan.connections - up) of \(plan.connections) connections have no UDP path; they go by TCP")
  }

  private func drain(_ mesh: Mesh, timeout: Duration) async {
    let deadline = Clock.now + Interval(timeout)
    while Clock.now < deadline {
      let snapshot = await mesh.onLoop { $0.snapshot(isFull: false) }
      if snapshot.verdict.lost == 0 || snapshot.failure != nil { return }
      await Self.pause(.milliseconds(5))
    }
  }

  /// The last receipts come up to 100 ms later; and a copy that should not be shown has time to be.
  private func waitForReceipts(_ mesh: Mesh) async {
    let (earliest, deadline) = (Clock.now + .milliseconds(200), Clock.now + .seconds(3))
    while Clock.now < deadline {
      let snapshot = await mesh.onLoop { $0.snapshot() }
      if Clock.now >= earliest, snapshot.unfinished == 0 || snapshot.failure != nil { return }
      await Self.pause(.milliseconds(10))
    }
  }

  /// Sleeps, also in a cancelled task.
  private static func pause(_ time: Duration) async {
    await Task.detached { try? await Task.sleep(for: time) }.value
  }

  private func end(_ mesh: Mesh) async {
    await mesh.onLoop { $0.logOut() }
    let deadline = Clock.now + .seconds(2)
    while Clock.now < deadline, await mesh.onLoop({ $0.snapshot().loggedIn }) > 0 { await Self.pause(.milliseconds(5)) }
    await mesh.onLoop { $0.close() }
  }
}
