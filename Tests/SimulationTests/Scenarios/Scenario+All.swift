import SimpCore

extension Scenario {
  /// Every scenario of the suite.
  static let all: [Scenario] = networks + blocked + servers + recipients + senders + roads

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

  private static let networks: [Scenario] = [
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

  private static let blocked: [Scenario] = [
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

  static let serverKilled: Scenario = {
    var scenario = loss20
    scenario.name = "server killed and started again, 20 % loss"
    scenario.latencyLimit = .seconds(25)
    // The recipient may be back long before the sender, and wait for a gap in vain.
    scenario.lateAllowed = 50
    scenario.leastByUDP = 0
    scenario.script = { world in
      world.at(.milliseconds(2500)) { world.server.kill() }
      world.at(.milliseconds(4000)) { world.server.start() }
    }
    return scenario
  }()

  private static let servers: [Scenario] = [
    serverKilled,
    {
      var scenario = everything
      scenario.name = "server killed three times, two reactors, everything at once"
      scenario.reactors = 2
      scenario.storeDelay = .milliseconds(3)
      scenario.latencyLimit = .seconds(40)
      scenario.lateAllowed = 60
      scenario.script = { world in
        for time: Int64 in [1500, 3500, 6000] {
          world.at(.milliseconds(time)) { world.server.kill() }
          world.at(.milliseconds(time + 700)) { world.server.start() }
        }
      }
      return scenario
    }(),
    {
      var scenario = everything
      scenario.name = "three reactors, everything at once"
      scenario.reactors = 3
      scenario.storeDelay = .milliseconds(2)
      return scenario
    }(),
    {
      var scenario = Scenario(name: "connections cut again and again")
      scenario.up.loss = 0.1
      scenario.down.loss = 0.1
      scenario.deeds = [.lost]
      scenario.reactors = 2
      scenario.script = { world in
        for time in stride(from: Int64(700), to: 5000, by: 900) {
          world.at(.milliseconds(time)) { world.client("alice").cutConnection() }
          world.at(.milliseconds(time + 350)) { world.client("bob").cutConnection() }
        }
      }
      return scenario
    }(),
  ]

  static let restart: Scenario = {
    var scenario = Scenario(name: "recipient restarts", flows: Flow.oneWay())
    scenario.up.loss = 0.05
    scenario.down.loss = 0.05
    scenario.deeds = [.lost]
    // Without the floor a new process would wait 10 s for what is long finished.
    scenario.latencyLimit = .seconds(6)
    scenario.script = { world in
      world.at(.milliseconds(2500)) { world.client("bob").kill() }
      world.at(.milliseconds(3500)) { world.client("bob").start() }
    }
    return scenario
  }()

  static let twoDevices: Scenario = {
    var scenario = Scenario(name: "a second login takes over, then the first comes back", flows: Flow.oneWay(300))
    scenario.up.loss = 0.05
    scenario.down.loss = 0.05
    scenario.deeds = [.lost]
    scenario.latencyLimit = .seconds(6)
    scenario.script = { world in
      let bob = world.client("bob")
      let second = SimulatedClient(
        world: world, name: "second", user: "bob", up: bob.up.conditions, down: bob.down.conditions)
      world.at(.milliseconds(2000)) { second.start() }
      world.at(.milliseconds(5000)) { bob.start() }
    }
    return scenario
  }()

  static let slow: Scenario = {
    var scenario = Scenario(name: "slow application, its room runs out")
    scenario.flows = Flow.oneWay(200, pause: .milliseconds(10))
    scenario.up.loss = 0.05
    scenario.down.loss = 0.05
    scenario.deeds = [.lost]
    scenario.latencyLimit = .seconds(30)
    scenario.script = { world in
      world.watchesRefusals = true
      let bob = world.client("bob")
      bob.room = 16
      bob.pace = .every(.milliseconds(25))
    }
    return scenario
  }()

  private static let recipients: [Scenario] = [
    {
      var scenario = Scenario(name: "recipient comes after 5 s", flows: Flow.oneWay(), online: ["alice"])
      scenario.up.loss = 0.1
      scenario.down.loss = 0.1
      scenario.deeds = [.lost]
      scenario.script = { world in world.at(.seconds(5)) { world.client("bob").start() } }
      return scenario
    }(),
    restart, twoDevices, slow,
    {
      var scenario = Scenario(name: "recipient keeps less than it announced")
      scenario.flows = Flow.oneWay(500, pause: .milliseconds(4))
      // It refuses what would close a gap as well. Late is the price of a broken word; lost would be too much.
      scenario.latencyLimit = .seconds(60)
      scenario.lateAllowed = 300
      scenario.script = { world in
        world.client("bob").refuse(above: 150)
        world.client("bob").pace = .stalling(period: .seconds(12), asleep: .seconds(6))
      }
      return scenario
    }(),
    {
      var scenario = Scenario(name: "application asleep while connections are cut")
      scenario.flows = Flow.oneWay(600, pause: .milliseconds(5))
      scenario.latencyLimit = .seconds(40)
      scenario.script = { world in
        world.client("bob").room = 100
        world.client("bob").pace = .stalling(period: .seconds(20), asleep: .seconds(8))
        for time: Int64 in 1...7 { world.at(.seconds(time)) { world.client("bob").cutConnection() } }
      }
      return scenario
    }(),
    {
      var scenario = Scenario(name: "application sleeps 3 s of each 4 s")
      scenario.flows = Flow.oneWay(300, pause: .milliseconds(20))
      scenario.up.loss = 0.1
      scenario.down.loss = 0.1
      scenario.deeds = [.lost]
      scenario.latencyLimit = .seconds(40)
      scenario.script = { world in
        let bob = world.client("bob")
        bob.room = 32
        bob.pace = .stalling(period: .seconds(4), asleep: .seconds(3))
      }
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

  private static let roads: [Scenario] = [
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

  private static let senders: [Scenario] = [
    {
      var scenario = everything
      scenario.name = "five senders, one slow application"
      scenario.flows = ["alice", "dora", "emil", "fritz", "gerda"].map {
        Flow(from: $0, to: "bob", count: 60, pause: .milliseconds(20))
      }
      scenario.online += ["dora", "emil", "fritz", "gerda"]
      scenario.latencyLimit = .seconds(30)
      scenario.script = { world in
        world.watchesRefusals = true
        world.client("bob").room = 24
        world.client("bob").pace = .every(.milliseconds(15))
      }
      return scenario
    }(),
    {
      var scenario = loss20
      scenario.name = "a send-only login beside the user's own"
      scenario.flows = [
        Flow(from: "alice", to: "bob", count: 100), Flow(from: "bob", to: "alice", count: 100),
        Flow(from: "script", to: "bob", count: 100),
      ]
      scenario.online += ["script"]
      scenario.script = { world in world.client("script").isSendOnly = true }
      return scenario
    }(),
    {
      var scenario = Scenario(name: "sender killed, outbox kept", flows: Flow.oneWay())
      scenario.up.loss = 0.2
      scenario.down.loss = 0.2
      scenario.deeds = [.lost]
      scenario.latencyLimit = .seconds(20)
      scenario.script = { world in
        world.at(.milliseconds(2500)) { world.client("alice").kill() }
        world.at(.milliseconds(4500)) { world.client("alice").start() }
      }
      return scenario
    }(),
    {
      var scenario = Scenario(name: "sender's address changes", flows: Flow.pair)
      scenario.up.loss = 0.05
      scenario.down.loss = 0.05
      scenario.deeds = [.lost]
      scenario.script = { world in
        world.at(.milliseconds(2000)) { world.client("alice").rebind() }
        world.at(.milliseconds(4000)) { world.client("bob").rebind() }
      }
      return scenario
    }(),
    {
      var scenario = Scenario(name: "1500 messages wait for the recipient", flows: [], online: ["alice"])
      scenario.flows = [Flow(from: "alice", to: "bob", count: 1500, pause: .zero)]
      scenario.up.loss = 0.05
      scenario.down.loss = 0.05
      scenario.deeds = [.lost]
      scenario.latencyLimit = .seconds(30)
      scenario.script = { world in
        world.at(.seconds(3)) { world.client("bob").start() }
        world.at(.milliseconds(4200)) { world.client("alice").cutConnection() }
      }
      return scenario
    }(),
  ]
}
