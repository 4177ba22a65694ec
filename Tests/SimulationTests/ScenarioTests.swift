import SimpCore
import Testing

extension Scenario: CustomTestStringConvertible {
  var testDescription: String { name }
}

/// The protocol in virtual time, scenario by scenario, under many seeds. A failure names its seed.
@Suite struct ScenarioTests {
  #if DEBUG
    static let seeds: ClosedRange<UInt64> = 1...2
  #else
    static let seeds: ClosedRange<UInt64> = 1...20
  #endif

  @Test(arguments: Scenario.all)
  func nothingIsLostOrDoubled(scenario: Scenario) async {
    let clock = ContinuousClock()
    let began = clock.now
    let report = await SeedLanes.report(Self.seeds, into: ScenarioReport(scenario)) { report, seed in
      let run = ScenarioRun(scenario, seed: seed)
      print("\(scenario.name), seed \(seed):\n\(run.network.text)")
      report.add(run)
      for failure in run.failures { Issue.record("\(scenario.name), seed \(seed): \(failure)") }
      // The first seeds that fail say enough.
      return report.failedRuns < 3
    } merge: {
      $0 += $1
    }
    print(report.text, "\n  took \(clock.now - began)")
    for failure in report.failures { Issue.record("\(scenario.name): \(failure)") }
  }
}

/// What the runs of one scenario did, summed.
struct ScenarioReport: Sendable {
  private let scenario: Scenario
  private var runs = 0
  private(set) var failedRuns = 0
  private var network = NetworkTally()
  private var messages = 0
  private var firstByUDP = 0
  private var late = 0
  private var later = 0
  private var again: UInt64 = 0
  private var escalated: UInt64 = 0
  private var shownAgain = 0
  private var steps = 0
  private var latencies: [Double] = []

  init(_ scenario: Scenario) { self.scenario = scenario }

  mutating func add(_ run: ScenarioRun) {
    runs += 1
    if !run.failures.isEmpty { failedRuns += 1 }
    network += run.network
    messages += run.messages
    firstByUDP += run.firstByUDP
    late += run.late
    later += run.laterEvents
    again += run.retransmissions
    escalated += run.escalated
    shownAgain += run.shownAgain
    steps += run.steps
    latencies += run.latencies
  }

  static func += (left: inout ScenarioReport, right: ScenarioReport) {
    left.runs += right.runs
    left.failedRuns += right.failedRuns
    left.network += right.network
    left.messages += right.messages
    left.firstByUDP += right.firstByUDP
    left.late += right.late
    left.later += right.later
    left.again += right.again
    left.escalated += right.escalated
    left.shownAgain += right.shownAgain
    left.steps += right.steps
    left.latencies += right.latencies
  }

  var failures: [String] {
    var found: [String] = []
    for deed in scenario.deeds + scenario.rareDeeds where min(network.count(deed).up, network.count(deed).down) == 0 {
      found.append("the network never did what it should: \(deed.rawValue)")
    }
    guard failedRuns == 0 else { return found }
    let share = Double(firstByUDP) / Double(max(1, messages))
    if share < scenario.leastByUDP || share > scenario.mostByUDP {
      found.append("a share of \(share) came by UDP, not \(scenario.leastByUDP)...\(scenario.mostByUDP)")
    }
    return found
  }

  var text: String {
    let sorted = latencies.sorted()
    func percentile(_ share: Double) -> String {
      sorted.isEmpty ? "-" : "\((sorted[Int(Double(sorted.count - 1) * share)] * 10).rounded() / 10)"
    }
    return """
      \(scenario.name): \(runs) runs, \(failedRuns) failed, \(messages) messages, \(firstByUDP) first by UDP, \(late) late, \
      \(later) LATER, \(again) sent again, \(escalated) escalated, \(shownAgain) shown again after a restart, \
      ms p50 \(percentile(0.5)) p99 \(percentile(0.99)) max \(percentile(1)), \(steps / max(1, runs)) steps a run
      \(network.text)
      """
  }
}
