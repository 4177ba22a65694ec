import SimpCore

/// One run of a scenario under one seed.
struct ScenarioRun: Sendable {
  let name: String
  var failures: [String] = []
  var network = NetworkTally()
  var messages = 0
  var firstByUDP = 0
  var late = 0
  var laterEvents = 0
  var shownAgain = 0
  var retransmissions: UInt64 = 0
  var escalated: UInt64 = 0
  var replayed: UInt64 = 0
  var keyChanges: (up: UInt64, down: UInt64) = (0, 0)
  var steps = 0
  var latencies: [Double] = []

  init(_ scenario: Scenario, seed: UInt64) {
    name = scenario.name
    let world = World(
      seed: seed, reactors: scenario.reactors, keyLimits: scenario.keyLimits, storeDelay: scenario.storeDelay,
      serverSleeps: scenario.serverSleeps)
    world.server.keepsInboxes = scenario.keepsInboxes
    world.server.storeIsAway(scenario.storeAway)
    var up = scenario.up
    var down = scenario.down
    let off = scenario.udpOff.map { world.span($0) }
    up.off += off
    down.off += off
    for name in Set(scenario.flows.flatMap { [$0.from, $0.to] } + scenario.online).sorted() {
      let client = SimulatedClient(world: world, name: name, up: up, down: down)
      client.streamUp = scenario.streamUp
      client.streamDown = scenario.streamDown
      client.streamUp.stalls += scenario.stalls.map { world.span($0) }
      client.streamDown.stalls += scenario.stalls.map { world.span($0) }
      client.sleeps = scenario.clientSleeps[name, default: []].map { world.span($0) }
      if scenario.online.contains(name) || name == "carol" { world.at(.zero) { client.start() } }
    }
    scenario.script(world)
    for (index, flow) in scenario.flows.enumerated() {
      let traffic = Traffic(flow, world: world, random: world.random(UInt64(index) << 24 | 7))
      world.at(flow.begin) { traffic.go() }
    }
    messages = scenario.flows.reduce(0) { $0 + $1.count }
    run(world, scenario)
    gather(world, scenario)
    world.forgetEvents()
  }

  private mutating func run(_ world: World, _ scenario: Scenario) {
    var sinceCheck = 0
    while world.ledger.messages.count < messages || !world.ledger.isComplete {
      guard world.failures.isEmpty, world.ledger.failures.isEmpty else { return }
      guard world.step(limit: world.start + scenario.timeLimit), world.steps < 1_000_000 else { break }
      sinceCheck += 1
      if sinceCheck == 32 {
        sinceCheck = 0
        checkBounds(world)
      }
    }
    if !world.ledger.isComplete { for restless in unrest(world) { world.fail("the time is over: \(restless)") } }
    world.ledger.checkAllArrived()
    if scenario.heals { world.heal() }
    settle(world, scenario)
  }

  private func checkBounds(_ world: World) {
    world.server.checkBounds()
    for client in world.clients { client.checkBounds() }
  }

  /// What is still under way may land; then a minute passes in which nothing but keep-alives and proofs may happen.
  private func settle(_ world: World, _ scenario: Scenario) {
    guard world.failures.isEmpty, world.ledger.failures.isEmpty else { return }
    let landed = world.now + .seconds(20)
    while world.failures.isEmpty, world.step(limit: landed) {}
    checkBounds(world)
    // A keep-alive may fly at any one instant, but not at all of six; one whose receipt never comes, for 6 s.
    for second: Int64 in [3, 6, 9, 13, 17] where !unrest(world).isEmpty {
      while world.failures.isEmpty, world.step(limit: landed + .seconds(second)) {}
    }
    for user in world.server.store.behind { world.fail("something is left in the inbox of \(user)") }
    for restless in unrest(world) { world.fail("not at rest: \(restless)") }
    // The first minute without UDP is one of many probes.
    while world.failures.isEmpty, world.step(limit: landed + .seconds(60)) {}
    let steps = world.steps
    let datagrams = datagramsOffered(world)
    while world.failures.isEmpty, world.step(limit: landed + .seconds(120)) {}
    // A client: keep-alives of two kinds, proofs of a path that is down, each with answers and receipts.
    let limit = scenario.quietSteps * world.clients.count
    if world.steps - steps > limit { world.fail("\(world.steps - steps) steps in a minute of silence, limit \(limit)") }
    let sent = datagramsOffered(world) - datagrams
    if sent > scenario.quietDatagrams * world.clients.count {
      world.fail("\(sent) datagrams in a minute of silence, limit \(scenario.quietDatagrams) a client")
    }
    world.ledger.checkAllArrived()
    for client in world.clients where client.session?.isActive ?? false {
      world.ledger.checkFollowed(from: client.user)
    }
  }

  private func datagramsOffered(_ world: World) -> Int {
    world.clients.reduce(world.misdirected) { $0 + $1.up.counters.offered + $1.down.counters.offered }
  }

  private func unrest(_ world: World) -> [String] { world.server.unrest + world.clients.flatMap(\.unrest) }

  private mutating func gather(_ world: World, _ scenario: Scenario) {
    world.countConnections()
    network.streamUp = world.streamUp
    network.streamDown = world.streamDown
    network.cuts = world.cuts
    for client in world.clients {
      network.up += client.up.counters
      network.down += client.down.counters
      network.rebindings += client.rebindings
      let counters = client.counters
      retransmissions += counters.retransmissions
      escalated += counters.messagesEscalated
      replayed += counters.datagramsReplayed
      keyChanges.up += counters.keyChanges
      keyChanges.down += counters.keyChangesOfPeer
      if counters.keyChangesTooSoon > 0 { world.fail("\(client.name): the server changed its key too soon") }
    }
    firstByUDP = world.ledger.firstByUDP
    late = world.ledger.late
    laterEvents = world.ledger.laterEvents
    shownAgain = world.ledger.shownAgainAfterRestart
    steps = world.steps
    latencies = world.ledger.latencies
    failures = world.failures + world.ledger.failures
    guard failures.isEmpty else { return }
    if late > scenario.lateAllowed { failures.append("\(late) messages came late, \(scenario.lateAllowed) may") }
    if let worst = latencies.last, worst > scenario.latencyLimit.milliseconds {
      failures.append("a message took \(worst) ms, limit \(scenario.latencyLimit.milliseconds)")
    }
    if min(keyChanges.up, keyChanges.down) < scenario.leastKeyChanges {
      failures.append("keys changed \(keyChanges) times, at least \(scenario.leastKeyChanges) each way was to be seen")
    }
    if world.server.store.stored < scenario.leastStored {
      failures.append("\(world.server.store.stored) messages were stored, at least \(scenario.leastStored) were to be")
    }
    if scenario.expectsForgery, world.forged == 0 { failures.append("nobody forged anything") }
    if Double(retransmissions) > scenario.mostSentAgain * Double(messages) {
      failures.append("\(retransmissions) messages were sent again, of \(messages)")
    }
    for deed in scenario.deeds + scenario.deedsOneWay where network.count(deed).up + network.count(deed).down == 0 {
      failures.append("the network did nothing: \(deed.rawValue)")
    }
    for client in world.clients {
      for deed in client.up.neglected {
        failures.append("the way up from \(client.name) did nothing: \(deed.rawValue)")
      }
      for deed in client.down.neglected {
        failures.append("the way down to \(client.name) did nothing: \(deed.rawValue)")
      }
    }
  }
}

/// Sends one flow: mostly one message at a time, now and then a handful, mostly small, now and then too large for a
/// datagram.
final class Traffic {
  private let flow: Flow
  private unowned let world: World
  private var random: SeededRandom
  private var left: Int

  init(_ flow: Flow, world: World, random: SeededRandom) {
    self.flow = flow
    self.world = world
    self.random = random
    left = flow.count
  }

  func go() {
    let burst = random.chance(0.1) ? Int(random.next() % 12) + 2 : 1
    let client = world.client(flow.from)
    let awake = client.awake(world.now)
    guard awake == world.now else { return world.schedule(awake) { [self] in go() } }
    for _ in 0..<min(burst, left) {
      let size = random.chance(0.03) ? 1500 + Int(random.next() % 20000) : 60 + Int(random.next() % 400)
      guard client.post(to: flow.to, size: size, isAwaited: random.chance(0.1)) else { break }
      left -= 1
    }
    guard left > 0 else { return }
    world.schedule(world.now + random.interval(upTo: flow.pause * 2)) { [self] in go() }
  }
}
