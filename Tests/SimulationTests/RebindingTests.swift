import SimpCore
import Testing

@testable import SimpCore

/// A network that gives a client another port every second, for a minute: 20 ms there and back, nothing lost but what is
/// under way to an old port.
@Suite struct RebindingTests {
  private func run(from: String, to: String, seed: UInt64) -> (run: ScenarioRun, moves: Int, sessions: Int) {
    var scenario = Scenario(name: "\(from) to \(to), whose port changes every second")
    scenario.flows = [Flow(from: from, to: to, count: 1000, begin: .milliseconds(500), pause: .milliseconds(60))]
    final class Seen: @unchecked Sendable {
      var world: World?
    }
    let seen = Seen()
    scenario.script = { world in
      seen.world = world
      for second: Int64 in 1...60 {
        world.at(.milliseconds(1000 * second)) { world.client("alice").rebind() }
      }
    }
    let run = ScenarioRun(scenario, seed: seed)
    let alice = seen.world?.client("alice")
    let moves = seen.world?.misdirected ?? 0
    seen.world = nil
    return (run, moves, alice?.sessions ?? 0)
  }

  /// What a client sends goes on as if nothing had happened, whatever its port.
  @Test(arguments: [1, 2, 3] as [UInt64]) func aClientThatSends(seed: UInt64) {
    let (run, _, sessions) = run(from: "alice", to: "bob", seed: seed)
    for failure in run.failures { Issue.record("seed \(seed): \(failure)") }
    #expect(sessions == 1 && run.escalated == 0, "\(sessions) logins, \(run.escalated) escalated")
    // 20 ms on the way, and no pause over three round trips.
    let small = run.latencies.filter { $0 <= 80 }.count
    #expect(small == run.latencies.count, "\(run.latencies.suffix(5))")
  }

  /// Datagrams to a port that is no more are missed, the client is asked on TCP, and shows where it is.
  @Test(arguments: [1, 2, 3] as [UInt64]) func aClientThatOnlyListens(seed: UInt64) {
    let (run, misdirected, sessions) = run(from: "bob", to: "alice", seed: seed)
    for failure in run.failures { Issue.record("seed \(seed): \(failure)") }
    #expect(sessions == 1 && misdirected > 50, "\(sessions) logins, \(misdirected) datagrams to an old port")
    #expect(run.latencies.last ?? .infinity < 1000, "\(run.latencies.suffix(5))")
    #expect(Double(run.firstByUDP) > 0.9 * Double(run.messages), "\(run.firstByUDP) of \(run.messages) by UDP")
  }
}
