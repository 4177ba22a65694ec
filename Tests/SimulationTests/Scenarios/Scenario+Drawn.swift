import SimpCore

/// A scenario drawn from a seed over everything that networks, processes and people do to one another. The name says
/// what was drawn.
extension Scenario {
  static func drawn(_ seed: UInt64) -> Scenario {
    var draw = ScenarioDraw(seed: seed)
    return draw.scenario()
  }

  /// The same, with a store that takes messages, and with people who come later, and leave and come back.
  static func drawnWithInboxes(_ seed: UInt64) -> Scenario {
    var draw = ScenarioDraw(seed: seed)
    return draw.scenarioWithInboxes()
  }
}

/// Draws one scenario. Each impairment by itself is rare, so that most runs have a handful of them.
struct ScenarioDraw {
  private var random: SeededRandom
  private var parts: [String] = []
  /// How long things may stand still or be slow because of what was drawn, all together.
  private var outage = Interval.zero
  private var people = ["alice", "bob"]

  init(seed: UInt64) { random = SeededRandom(seed: seed, purpose: 0xD4A3) }

  mutating func scenarioWithInboxes() -> Scenario {
    var scenario = scenario()
    scenario.keepsInboxes = true
    var comings: [ScriptedDeed] = []
    for name in people {
      guard scenario.flows.contains(where: { $0.from == name || $0.to == name }) else { continue }
      if chance(0.3) {
        scenario.online.removeAll { $0 == name }
        comings.append(ScriptedDeed(time(500...5000), .start(name)))
        note("\(name) comes later")
      } else if chance(0.3) {
        let (begin, stay) = (time(200...3000), time(20...1500))
        for index in 0..<Int64(number(1...8)) {
          comings.append(ScriptedDeed(begin + stay * (2 * index), .leave(name)))
          comings.append(ScriptedDeed(begin + stay * (2 * index + 1), .start(name)))
        }
        note("\(name) leaves and comes back")
      }
      if chance(0.1) {
        comings.append(ScriptedDeed(.zero, .room(name, UInt32(pick([8, 32])), .every(.milliseconds(5)))))
      }
    }
    if chance(0.2) {
      scenario.storeAway = spans(20...1500)
      note("the store is away")
    }
    let (script, deeds) = (scenario.script, comings)
    scenario.script = { world in
      script(world)
      for deed in deeds { deed.happen(in: world) }
    }
    scenario.timeLimit = scenario.timeLimit + .seconds(120)
    scenario.name += "; with inboxes, " + parts.suffix(4).joined(separator: ", ")
    return scenario
  }

  mutating func scenario() -> Scenario {
    var scenario = Scenario(name: "drawn")
    let delay = pick([1, 5, 10, 10, 20, 20, 50, 50, 150, 300, 750].map(Interval.milliseconds))
    for (name, path) in [("up", \Scenario.up), ("down", \Scenario.down)] {
      scenario[keyPath: path].delay = delay
      drawDatagrams(&scenario[keyPath: path], name)
    }
    drawStream(&scenario.streamUp, "up")
    drawStream(&scenario.streamDown, "down")
    scenario.flows = flows()
    scenario.online = people
    drawSleeps(&scenario)
    let deeds = script()
    scenario.script = { world in for deed in deeds { deed.happen(in: world) } }
    drawServer(&scenario)
    scenario.name = "\(delay.milliseconds) ms; " + parts.joined(separator: ", ")
    scenario.heals = true
    scenario.quietDatagrams = 12
    // How much a road carries that takes seconds and loses a third is for the table of delivery to say. Here all has to
    // come within this, and what is late, because it was kept back for more than the 10 s of a gap, is counted.
    scenario.timeLimit = .seconds(600) + outage
    scenario.latencyLimit = scenario.timeLimit
    scenario.lateAllowed = .max
    scenario.mostSentAgain = 60
    return scenario
  }

  // MARK: - Lots

  private mutating func chance(_ probability: Double) -> Bool { random.chance(probability) }

  private mutating func pick<Value>(_ values: [Value]) -> Value { values[Int(random.next() % UInt64(values.count))] }

  private mutating func number(_ range: ClosedRange<Int>) -> Int {
    range.lowerBound + Int(random.next() % UInt64(range.count))
  }

  private mutating func time(_ range: ClosedRange<Int64>) -> Interval {
    .milliseconds(range.lowerBound) + random.interval(upTo: .milliseconds(range.upperBound - range.lowerBound))
  }

  /// One to three spans within the time that people talk.
  private mutating func spans(_ length: ClosedRange<Int64>) -> [Range<Interval>] {
    (0..<number(1...3)).map { _ in
      let begin = time(0...6000)
      let end = begin + time(length)
      outage = outage + (end - begin)
      return begin..<end
    }
  }

  private mutating func note(_ part: String) { parts.append(part) }

  // MARK: - Datagrams

  private mutating func drawDatagrams(_ link: inout LinkConditions, _ way: String) {
    if chance(0.35) {
      link.loss = pick([0.01, 0.05, 0.05, 0.1, 0.2, 0.3])
      note("loss \(link.loss) \(way)")
    }
    if chance(0.2) {
      link.burstBegins = pick([0.01, 0.03, 0.1])
      link.burstEnds = pick([0.5, 1.0 / 3, 0.1])
      link.burstLoss = pick([1, 1, 0.7])
      note("bursts \(way)")
    }
    if chance(0.2) {
      link.duplication = pick([0.05, 0.5])
      note("doubling \(link.duplication) \(way)")
    }
    if chance(0.25) {
      link.reordering = pick([0.05, 0.25, 0.5])
      link.reorderingDelay = pick([3, 40, 200].map(Interval.milliseconds))
      note("overtaking \(link.reordering) by \(link.reorderingDelay.milliseconds) ms \(way)")
    }
    if chance(0.2) {
      link.corruption = pick([0.02, 0.02, 0.3])
      note("broken bits \(link.corruption) \(way)")
    }
    if chance(0.05) {
      link.replays = number(1...3)
      note("played again \(link.replays) times \(way)")
    }
    if chance(0.15) {
      link.bytesPerSecond = pick([16_000, 125_000, 1_250_000])
      link.queue = pick([10, 50, 200])
      note("\(link.bytesPerSecond) bytes/s with a queue of \(link.queue) \(way)")
    }
    if chance(0.07) {
      link.largest = pick([600, 1100, 1199])
      note("nothing above \(link.largest) bytes \(way)")
    }
    if chance(0.05) {
      link.dropsReceipts = true
      note("no receipts by UDP \(way)")
    }
    if chance(0.2) {
      link.dropped = Set((0..<number(1...4)).map { _ in number(0...20) })
      note("without datagrams \(link.dropped.sorted()) \(way)")
    }
    if chance(0.15) {
      link.off = spans(100...8000).map { World.beginning + $0.lowerBound..<World.beginning + $0.upperBound }
      note("\(link.off.count) times without UDP \(way)")
    }
  }

  private mutating func drawStream(_ link: inout StreamConditions, _ way: String) {
    if chance(0.12) {
      link.stalls = spans(200...6000).map { World.beginning + $0.lowerBound..<World.beginning + $0.upperBound }
      note("TCP stalls \(link.stalls.count) times \(way)")
    }
    if chance(0.12) {
      link.hiccups = pick([0.01, 0.1, 0.3])
      note("TCP hiccups \(link.hiccups) \(way)")
    }
    if chance(0.1) {
      link.bytesPerSecond = pick([32_000, 125_000])
      outage = outage + .seconds(30)
      note("TCP with \(link.bytesPerSecond) bytes/s \(way)")
    }
    if chance(0.1) {
      link.delay = pick([1, 100, 500].map(Interval.milliseconds))
      note("TCP takes \(link.delay?.milliseconds ?? 0) ms \(way)")
    }
  }

  // MARK: - People

  private mutating func flows() -> [Flow] {
    if chance(0.4) { people.append("carol") }
    if chance(0.15) { people.append("dora") }
    return (0..<number(1...4)).map { _ in
      let from = pick(people)
      var flow = Flow(from: from, to: pick(people.filter { $0 != from }), count: number(10...120))
      if chance(0.03) { flow.count = 800 }
      flow.begin = time(0...1500)
      flow.pause = pick([0, 5, 20, 40, 80].map(Interval.milliseconds))
      return flow
    }
  }

  private mutating func drawSleeps(_ scenario: inout Scenario) {
    scenario.up.socket = pick([4, 32, 128])
    scenario.down.socket = pick([4, 32, 128])
    for name in people where chance(0.15) {
      scenario.clientSleeps[name] = spans(300...4000)
      note("\(name) stands still")
    }
    if chance(0.1) {
      scenario.serverSleeps = spans(200...2500)
      note("the server stands still")
    }
  }

  private mutating func drawServer(_ scenario: inout Scenario) {
    scenario.reactors = pick([1, 1, 2, 3])
    scenario.storeDelay = .milliseconds(pick([0, 0, 3]))
    if scenario.reactors > 1 { note("\(scenario.reactors) reactors") }
    if chance(0.1) {
      scenario.keyLimits.phaseDatagrams = 10
      note("keys change")
    }
  }

  // MARK: - What happens when

  private mutating func script() -> [ScriptedDeed] {
    var deeds: [ScriptedDeed] = []
    for name in people {
      if chance(0.12) {
        let every = pick([50, 100, 300, 1000, 1000, 5000])
        let count = min(number(1...20), 8000 / every)
        let moves = chance(0.3)
        let begin = time(200...3000)
        for index in 0..<count {
          deeds.append(ScriptedDeed(begin + .milliseconds(Int64(every * index)), .rebind(name, moves: moves)))
        }
        note("\(name) \(moves ? "moves" : "is rebound") \(count) times, every \(every) ms")
      }
      if chance(0.12) {
        for _ in 0..<number(1...3) { deeds.append(ScriptedDeed(time(200...5000), .cut(name))) }
        outage = outage + .seconds(15)
        note("\(name)'s connection is cut")
      }
      if chance(0.08) {
        deeds.append(ScriptedDeed(.zero, .room(name, UInt32(pick([8, 32, 100])), .every(.milliseconds(20)))))
        outage = outage + .seconds(60)
        note("\(name) reads slowly")
      }
      if chance(0.06) {
        let begin = time(500...4000)
        deeds.append(ScriptedDeed(begin, .kill(name)))
        deeds.append(ScriptedDeed(begin + time(50...3000), .start(name)))
        outage = outage + .seconds(20)
        note("\(name) is killed and comes back")
      }
    }
    if chance(0.07) {
      let begin = time(500...4000)
      deeds.append(ScriptedDeed(begin, .kill(nil)))
      deeds.append(ScriptedDeed(begin + time(50...3000), .start(nil)))
      outage = outage + .seconds(20)
      note("the server is killed and comes back")
    }
    return deeds
  }
}

/// Something that a drawn scenario does to somebody.
struct ScriptedDeed: Sendable {
  enum Kind: Sendable {
    case rebind(String, moves: Bool)
    case cut(String)
    case room(String, UInt32, Pace)
    /// nil: the server.
    case kill(String?)
    case start(String?)
    case leave(String)
  }

  private let at: Interval
  private let kind: Kind

  init(_ at: Interval, _ kind: Kind) {
    self.at = at
    self.kind = kind
  }

  func happen(in world: World) {
    // What a process announces it says before it starts.
    if case .room(let name, let room, let pace) = kind {
      world.client(name).room = room
      world.client(name).pace = pace
      return
    }
    world.at(at) { [kind, unowned world] in
      switch kind {
      case .rebind(let name, let moves): moves ? world.client(name).move() : world.client(name).rebind()
      case .cut(let name): world.client(name).cutConnection()
      case .room: break
      case .kill(let name): name.map { world.client($0).kill() } ?? world.server.kill()
      case .leave(let name): world.client(name).leave()
      case .start(let name): name.map { world.client($0).start() } ?? world.server.start()
      }
    }
  }
}
