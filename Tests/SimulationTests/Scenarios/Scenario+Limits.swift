import SimpCore

/// What is narrow, cut short, stands still or moves: rates, sizes, one channel or one way apart, processes, addresses.
extension Scenario {
  private static func span(_ from: Int64, _ to: Int64) -> Range<Interval> {
    .milliseconds(from)..<(.milliseconds(to))
  }

  private static func made(
    _ name: String, _ deeds: [Deed] = [], oneWay: [Deed] = [], _ change: (inout Scenario) -> Void
  ) -> Scenario {
    var scenario = Scenario(name: name)
    scenario.deeds = deeds
    scenario.deedsOneWay = oneWay
    change(&scenario)
    return scenario
  }

  /// 128 kbit/s each way.
  private static let narrow = 16_000

  static let limits: [Scenario] = narrowRoads + oneChannel + standingStill + moving

  private static let narrowRoads: [Scenario] = [
    made("128 kbit/s with a queue of 50 datagrams", [.queued]) { scenario in
      for path in [\Scenario.up, \Scenario.down] {
        scenario[keyPath: path].bytesPerSecond = narrow
        scenario[keyPath: path].queue = 50
      }
      // One sender whose every message fills a third of a datagram, at half of what the road carries.
      scenario.flows = Flow.oneWay(200, pause: .milliseconds(40))
      scenario.latencyLimit = .seconds(8)
    },
    made("10 Mbit/s with a queue of 25 datagrams, a burst of 600 messages", [.queued]) { scenario in
      for path in [\Scenario.up, \Scenario.down] {
        scenario[keyPath: path].bytesPerSecond = 1_250_000
        scenario[keyPath: path].queue = 25
      }
      scenario.flows = Flow.oneWay(600, pause: .zero)
    },
    made("nothing above 1100 bytes on the way up", oneWay: [.tooLarge]) { $0.up.largest = 1100 },
    made("nothing above 1100 bytes on the way down", oneWay: [.tooLarge]) { $0.down.largest = 1100 },
    made("datagrams above 300 bytes vanish after half a second", oneWay: [.tooLarge]) { scenario in
      scenario.flows = Flow.oneWay(300, pause: .milliseconds(5))
      scenario.script = { world in
        world.at(.milliseconds(500)) { for client in world.clients { client.up.conditions.largest = 300 } }
      }
    },
  ]

  private static let oneChannel: [Scenario] = [
    made("no receipt comes by UDP", oneWay: [.receiptsDropped]) { $0.down.dropsReceipts = true },
    made("no receipt passes by UDP either way", [.receiptsDropped]) { scenario in
      scenario.up.dropsReceipts = true
      scenario.down.dropsReceipts = true
    },
    made("loss of 30 % up, none down", oneWay: [.lost]) { $0.up.loss = 0.3 },
    made("loss of 30 % down, none up", oneWay: [.lost]) { $0.down.loss = 0.3 },
    made("bursts of three, 30 % each way", [.lost]) { scenario in
      for path in [\Scenario.up, \Scenario.down] {
        scenario[keyPath: path].burstBegins = 0.143
        scenario[keyPath: path].burstEnds = 1.0 / 3
      }
    },
    made("TCP with 128 kbit/s and hiccups, UDP with 5 % loss", [.streamQueued, .streamHiccups, .lost]) { scenario in
      for path in [\Scenario.streamUp, \Scenario.streamDown] {
        scenario[keyPath: path].bytesPerSecond = narrow
        scenario[keyPath: path].hiccups = 0.1
      }
      scenario.up.loss = 0.05
      scenario.down.loss = 0.05
      // What is too large for a datagram takes its time, and what follows it waits.
      scenario.latencyLimit = .seconds(30)
    },
    made("TCP stalls on the way down only", oneWay: [.streamStalled]) { scenario in
      scenario.streamDown.stalls = [World.beginning + .milliseconds(1500)..<World.beginning + .milliseconds(9500)]
      scenario.latencyLimit = .seconds(12)
    },
  ]

  private static let standingStill: [Scenario] = [
    made("the server stands still for 2 s", oneWay: [.sleptOver]) { $0.serverSleeps = [span(2000, 4000)] },
    made("the recipient stands still, its socket overflows", oneWay: [.sleptOver, .overrun]) { scenario in
      scenario.flows = Flow.oneWay(400, pause: .milliseconds(5))
      scenario.clientSleeps["bob"] = [span(400, 900), span(1200, 3000)]
      // Fewer than the congestion window lets fly.
      scenario.down.socket = 6
    },
    made("the sender stands still in the middle of its receipts", oneWay: [.sleptOver]) { scenario in
      scenario.flows = Flow.oneWay()
      scenario.clientSleeps["alice"] = [span(1005, 1500), span(2005, 3500), span(4005, 4100)]
    },
  ]

  private static let moving: [Scenario] =
    [50, 100, 300, 1000].map { every in
      made("a new port every \(every) ms for 6 s, for both", [.rebound]) { scenario in
        scenario.script = { world in
          for time in stride(from: Int64(1000), to: 7000, by: every) {
            world.at(.milliseconds(time)) { for name in ["alice", "bob"] { world.client(name).rebind() } }
          }
        }
      }
    } + [
      made("a new address every 2 s, 10 % loss", [.rebound, .lost]) { scenario in
        scenario.up.loss = 0.1
        scenario.down.loss = 0.1
        scenario.script = { world in
          for time: Int64 in [1000, 3000, 5000] {
            world.at(.milliseconds(time)) { for name in ["alice", "bob"] { world.client(name).move() } }
          }
        }
      }
    ]
}
