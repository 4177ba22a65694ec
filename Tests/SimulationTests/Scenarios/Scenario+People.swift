import SimpCore

/// What happens to people: servers that die, recipients that are slow, absent or replaced, senders that die.
extension Scenario {
  static let serverKilled: Scenario = {
    var scenario = loss20
    scenario.name = "server killed and started again, 20 % loss"
    scenario.latencyLimit = .seconds(25)
    // The recipient may be back long before the sender, and wait for a gap in vain.
    scenario.lateAllowed = 50
    scenario.leastByUDP = 0
    scenario.script = { $0.server.scheduleKills(at: [2500], for: 1500) }
    return scenario
  }()

  static let servers: [Scenario] = [
    serverKilled,
    {
      var scenario = everything
      scenario.name = "server killed three times, two reactors, everything at once"
      scenario.reactors = 2
      scenario.storeDelay = .milliseconds(3)
      scenario.latencyLimit = .seconds(40)
      scenario.lateAllowed = 60
      scenario.script = { $0.server.scheduleKills(at: [1500, 3500, 6000], for: 700) }
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
    var scenario = Scenario(name: "a second login takes over, then the first comes back", flows: Flow.oneWay(450))
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

  static let recipients: [Scenario] = [
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

  static let senders: [Scenario] = [
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
