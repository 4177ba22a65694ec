import SimpCore

/// What networks do: lose, double, overtake, break, block, forge.
extension Scenario {
  /// Every scenario of the suite.
  static let all: [Scenario] = networks + keys + blocked + servers + recipients + senders + roads + limits + inboxes

  /// From and to, in milliseconds since the beginning.
  private static func span(_ from: Int64, _ to: Int64) -> Range<Interval> {
    Interval.milliseconds(from)..<Interval.milliseconds(to)
  }

  private static func lossy(_ share: Double) -> Scenario {
    var scenario = Scenario(name: "loss of \(Int(share * 100)) % each way")
    scenario.up.loss = share
    scenario.down.loss = share
    if share < 0.05 { scenario.rareDeeds = [.lost] } else { scenario.deeds = [.lost] }
    scenario.leastByUDP = share <= 0.2 ? 0.8 : 0.4
    return scenario
  }

  private static func both(_ name: String, _ deeds: [Deed], _ change: (inout LinkConditions) -> Void) -> Scenario {
    var scenario = Scenario(name: name)
    change(&scenario.up)
    change(&scenario.down)
    scenario.deeds = deeds
    return scenario
  }

  static let clean: Scenario = {
    var scenario = Scenario(name: "clean")
    scenario.leastByUDP = 0.9
    scenario.latencyLimit = .seconds(2)
    return scenario
  }()

  static let loss20 = lossy(0.20)

  static let duplication = both("duplication of 50 %", [.duplicated]) { $0.duplication = 0.5 }

  static let everything = both("everything at once", [.lost, .duplicated, .reordered]) {
    $0.loss = 0.1
    $0.burstBegins = 0.01
    $0.burstEnds = 0.2
    $0.duplication = 0.2
    $0.reordering = 0.2
    $0.corruption = 0.02
    $0.delay = .milliseconds(20)
  }

  static let networks: [Scenario] = [
    clean, lossy(0.01), lossy(0.05), loss20, lossy(0.30),
    both("bursts of loss", [.lost]) {
      $0.burstBegins = 0.03
      $0.burstEnds = 0.15
    },
    duplication,
    both("reordering", [.reordered]) { $0.reordering = 0.5 },
    both("broken bits", [.corrupted]) { $0.corruption = 0.1 },
    everything,
  ]

  /// Loss, overtaking, and each datagram played again ten times, at any time: across changes of keys and new logins.
  static let keyChanges: Scenario = {
    var scenario = everything
    scenario.name = "keys change every 10 datagrams, all played again ten times, connections cut"
    scenario.up.replays = 10
    scenario.down.replays = 10
    scenario.deeds = [.lost, .reordered, .replayed]
    scenario.keyLimits.phaseDatagrams = 10
    scenario.leastKeyChanges = 10
    // The few datagrams of a minute come ten times as well.
    scenario.quietSteps = 150
    scenario.script = { world in
      world.at(.milliseconds(2000)) { world.client("alice").cutConnection() }
      world.at(.milliseconds(3500)) { world.client("bob").cutConnection() }
    }
    return scenario
  }()

  static let keys: [Scenario] = [
    keyChanges,
    {
      var scenario = clean
      scenario.name = "keys change with every datagram that may"
      scenario.keyLimits.phaseDatagrams = 1
      scenario.leastKeyChanges = 20
      return scenario
    }(),
    {
      var scenario = Scenario(name: "a key is used up")
      scenario.keyLimits = KeyLimits(phaseDatagrams: 1000, sealedDatagrams: 40)
      return scenario
    }(),
  ]

  static let noUDP: Scenario = {
    var scenario = Scenario(name: "no UDP from the start")
    scenario.udpOff = [span(0, 10_000_000)]
    scenario.mostByUDP = 0
    return scenario
  }()

  static let udpStops: Scenario = {
    var scenario = Scenario(name: "UDP stops in the middle")
    scenario.udpOff = [span(2000, 10_000_000)]
    scenario.deeds = [.blocked]
    return scenario
  }()

  static let blocked: [Scenario] = [
    noUDP, udpStops,
    {
      var scenario = Scenario(name: "UDP away for 8 s")
      scenario.udpOff = [span(1500, 9500)]
      scenario.deeds = [.blocked]
      scenario.flows = [
        Flow(from: "alice", to: "bob", count: 200, pause: .milliseconds(100)),
        Flow(from: "bob", to: "alice", count: 200, pause: .milliseconds(100)),
      ]
      return scenario
    }(),
    {
      var scenario = Scenario(name: "TCP stalls for 15 s")
      scenario.stalls = [span(1500, 16_500)]
      scenario.up.loss = 0.05
      scenario.down.loss = 0.05
      scenario.deeds = [.lost]
      // What is too large for a datagram has no other way, and what follows it waits for it.
      scenario.latencyLimit = .seconds(20)
      scenario.lateAllowed = 20
      return scenario
    }(),
  ]

  static let forged: Scenario = {
    var scenario = Scenario(name: "copies from a forged address come first")
    scenario.up.loss = 0.1
    scenario.down.loss = 0.1
    scenario.rareDeeds = [.lost]
    scenario.expectsForgery = true
    scenario.script = { world in
      world.client("alice").forger = .v4(192, 0, 2, 66, port: 6666)
      world.client("bob").forger = .v4(192, 0, 2, 66, port: 6667)
    }
    return scenario
  }()

  static let roads: [Scenario] = [
    forged,
    {
      var scenario = Scenario(name: "a long road, 600 ms there and back, 10 % loss")
      for path in [\Scenario.up, \Scenario.down] {
        scenario[keyPath: path].delay = .milliseconds(300)
        scenario[keyPath: path].loss = 0.1
      }
      scenario.deeds = [.lost]
      scenario.latencyLimit = .seconds(12)
      return scenario
    }(),
    {
      var scenario = Scenario(name: "UDP comes and goes every 3 s")
      scenario.udpOff = (0..<10).map { span(1500 + 6000 * $0, 4500 + 6000 * $0) }
      scenario.flows = [
        Flow(from: "alice", to: "bob", count: 300, pause: .milliseconds(100)),
        Flow(from: "bob", to: "alice", count: 300, pause: .milliseconds(100)),
      ]
      scenario.deeds = [.blocked]
      return scenario
    }(),
    {
      var scenario = loss20
      scenario.name = "20 % loss for half a minute"
      scenario.flows = [Flow(from: "alice", to: "bob", count: 800, pause: .milliseconds(60))]
      return scenario
    }(),
    {
      var scenario = Scenario(name: "UDP passes one way only")
      // The server asks for proofs as seldom as the client makes them.
      scenario.quietSteps = 22
      scenario.script = { world in
        let off = world.start + .milliseconds(1500)..<world.start + .seconds(10_000)
        world.client("alice").up.conditions.off = [off]
        world.client("bob").down.conditions.off = [off]
      }
      scenario.deeds = [.blocked]
      return scenario
    }(),
  ]
}
