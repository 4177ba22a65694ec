import SimpCore

/// Messages for who is away, or falls behind: what is in an inbox, on its way there, or on its way out while people,
/// connections, servers and the store come and go.
extension Scenario {
  private static func comingAndGoing(_ name: String, every milliseconds: Int64, until end: Int64)
    -> @Sendable (World)
    -> Void
  {
    { world in
      for (index, time) in stride(from: Int64(400), to: end, by: Int64.Stride(milliseconds)).enumerated() {
        world.at(.milliseconds(time)) { index % 2 == 0 ? world.client(name).leave() : world.client(name).start() }
      }
      world.at(.milliseconds(end)) { world.client(name).start() }
    }
  }

  /// As it was, and with a store that takes messages.
  private func withInboxes() -> Scenario {
    var scenario = self
    scenario.name += ", with inboxes"
    scenario.keepsInboxes = true
    return scenario
  }

  static let offline: Scenario = {
    var scenario = Scenario(name: "an inbox is read while connections are cut", flows: [], online: ["alice", "dora"])
    scenario.keepsInboxes = true
    scenario.leastStored = 500
    scenario.flows = ["alice", "dora"].map { Flow(from: $0, to: "bob", count: 300, pause: .milliseconds(5)) }
    scenario.up.loss = 0.05
    scenario.down.loss = 0.05
    scenario.deeds = [.lost]
    scenario.reactors = 2
    scenario.storeDelay = .milliseconds(1)
    scenario.latencyLimit = .seconds(30)
    scenario.script = { world in
      world.client("bob").room = 100
      world.at(.seconds(4)) { world.client("bob").start() }
      for cut: Int64 in 1...20 { world.at(.milliseconds(4000 + 60 * cut)) { world.client("bob").cutConnection() } }
    }
    return scenario
  }()

  static let inboxes: [Scenario] =
    [
      offline,
      {
        var scenario = Scenario(name: "a recipient comes and goes")
        scenario.keepsInboxes = true
        scenario.leastStored = 20
        scenario.flows = ["alice", "dora", "emil"].map {
          Flow(from: $0, to: "bob", count: 150, pause: .milliseconds(30))
        }
        scenario.online += ["dora", "emil"]
        scenario.reactors = 3
        scenario.storeDelay = .milliseconds(3)
        scenario.up.loss = 0.05
        scenario.down.loss = 0.05
        scenario.deeds = [.lost]
        scenario.latencyLimit = .seconds(20)
        scenario.script = comingAndGoing("bob", every: 130, until: 4500)
        return scenario
      }(),
      {
        var scenario = Scenario(name: "a recipient comes and goes while the store is away now and then")
        scenario.keepsInboxes = true
        scenario.leastStored = 10
        scenario.flows = ["alice", "dora"].map { Flow(from: $0, to: "bob", count: 150, pause: .milliseconds(30)) }
        scenario.online += ["dora"]
        scenario.reactors = 2
        scenario.storeDelay = .milliseconds(3)
        scenario.storeAway = [(700, 1000), (1500, 1520), (2500, 3600), (4400, 5000)].map {
          .milliseconds(Int64($0.0)) ..< .milliseconds(Int64($0.1))
        }
        scenario.latencyLimit = .seconds(20)
        scenario.script = comingAndGoing("bob", every: 170, until: 5000)
        return scenario
      }(),
      {
        var scenario = offline
        scenario.name = "the server is killed while an inbox is read"
        scenario.script = { world in
          world.at(.seconds(4)) { world.client("bob").start() }
          world.server.scheduleKills(at: [1000, 4080, 4700], for: 300)
        }
        return scenario
      }(),
      {
        var scenario = offline
        scenario.name = "the recipient's process is killed while an inbox is read"
        // A new process begins where the sender was when it sent, and waits for what the other had.
        scenario.latencyLimit = .seconds(60)
        scenario.script = { world in
          world.client("bob").room = 100
          world.at(.seconds(4)) { world.client("bob").start() }
          for time: Int64 in [4100, 4400, 4700] {
            world.at(.milliseconds(time)) { world.client("bob").kill() }
            world.at(.milliseconds(time + 50)) { world.client("bob").start() }
          }
        }
        return scenario
      }(),
      {
        var scenario = offline
        scenario.name = "an inbox is read slowly while more comes"
        scenario.flows = ["alice", "dora"].map { Flow(from: $0, to: "bob", count: 300, pause: .milliseconds(20)) }
        scenario.latencyLimit = .seconds(60)
        scenario.leastStored = 300
        scenario.script = { world in
          world.client("bob").room = 20
          world.client("bob").pace = .every(.milliseconds(15))
          world.at(.seconds(2)) { world.client("bob").start() }
        }
        return scenario
      }(),
      {
        var scenario = everything
        scenario.name = "everything at once, and an inbox"
        scenario.keepsInboxes = true
        scenario.reactors = 3
        scenario.storeDelay = .milliseconds(2)
        scenario.latencyLimit = .seconds(60)
        scenario.lateAllowed = 20
        scenario.script = comingAndGoing("bob", every: 700, until: 5000)
        return scenario
      }(),
    ]
    + (recipients + senders + servers + limits).map { $0.withInboxes() }
}
