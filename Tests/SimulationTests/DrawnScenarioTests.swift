import Glibc
import SimpCore
import Testing

/// Scenarios drawn from seeds: 1000 of them in a release build, a few in a debug build.
///
///     SIMP_SEEDS=1-100000 .build/release/simpPackageTests.xctest --testing-library swift-testing --filter DrawnScenarioTests
///
/// runs these instead, and SIMP_SEEDS=17 one alone.
@Suite struct DrawnScenarioTests {
  #if DEBUG
    private static let usual: ClosedRange<UInt64> = 1...10
  #else
    private static let usual: ClosedRange<UInt64> = 1...1000
  #endif
  /// What happens in one run of many only.
  private static let enoughForAllDeeds = 500
  private static let mostFailures = 20
  /// Messages that came late, in shares of all.
  private static let mostLate = 0.01

  @Test func nothingIsLostOrDoubledWhateverIsDrawn() async {
    let seeds = Self.seeds(unsafe getenv("SIMP_SEEDS").map { unsafe String(cString: $0) }) ?? Self.usual
    let clock = ContinuousClock()
    let began = clock.now
    let report = await SeedLanes.report(seeds, into: DrawnReport()) { report, seed in
      report.add(ScenarioRun(Self.scenario(seed), seed: seed), seed: seed)
      return report.failures.count < Self.mostFailures
    } merge: {
      $0 += $1
    }
    print("\(report.text)\n  took \(clock.now - began)")
    for failure in report.failures { Issue.record("\(failure)") }
    guard seeds.count >= Self.enoughForAllDeeds else { return }
    #expect(report.shareLate < Self.mostLate, "a share of \(report.shareLate) came late")
    for deed in Deed.allCases where min(report.network.count(deed).up, report.network.count(deed).down) == 0 {
      Issue.record("no network of \(seeds.count) ever did this each way: \(deed.rawValue)")
    }
  }

  /// Those of even seeds have inboxes.
  private static func scenario(_ seed: UInt64) -> Scenario {
    seed.isMultiple(of: 2) ? .drawnWithInboxes(seed) : .drawn(seed)
  }

  /// `FIRST-LAST`, or one number.
  static func seeds(_ text: String?) -> ClosedRange<UInt64>? {
    guard let numbers = text?.split(separator: "-").map({ UInt64($0) }), let first = numbers.first ?? nil else {
      return nil
    }
    let last = numbers.last ?? nil
    return last.map { first...max(first, $0) }
  }

  /// Else a failure could not be run again.
  @Test(arguments: [3, 11, 12] as [UInt64]) func aSeedNamesOneRun(seed: UInt64) {
    let runs = (0..<2).map { _ in ScenarioRun(Self.scenario(seed), seed: seed) }
    #expect(runs[0].network.text == runs[1].network.text)
    #expect(runs[0].steps == runs[1].steps && runs[0].latencies == runs[1].latencies)
    #expect(Self.scenario(seed).name == Self.scenario(seed).name)
  }
}

/// What the runs of many seeds did, summed.
private struct DrawnReport: Sendable {
  var failures: [String] = []
  var network = NetworkTally()
  private var runs = 0
  private var messages = 0
  private var late = 0
  private var runsWithLate = 0
  private var again: UInt64 = 0
  private var escalated: UInt64 = 0
  private var firstByUDP = 0

  mutating func add(_ run: ScenarioRun, seed: UInt64) {
    print("seed \(seed): \(run.name); messages \(run.messages) late \(run.late)\n\(run.network.text)")
    network += run.network
    runs += 1
    messages += run.messages
    late += run.late
    runsWithLate += run.late > 0 ? 1 : 0
    again += run.retransmissions
    escalated += run.escalated
    firstByUDP += run.firstByUDP
    for failure in run.failures {
      failures.append(
        """
        seed \(seed): \(failure); drawn: \(run.name); alone: SIMP_SEEDS=\(seed) .build/release/simpPackageTests.xctest \
        --testing-library swift-testing --filter DrawnScenarioTests
        """)
    }
  }

  var shareLate: Double { Double(late) / Double(max(1, messages)) }

  static func += (left: inout DrawnReport, right: DrawnReport) {
    left.failures += right.failures
    left.network += right.network
    left.runs += right.runs
    left.messages += right.messages
    left.late += right.late
    left.runsWithLate += right.runsWithLate
    left.again += right.again
    left.escalated += right.escalated
    left.firstByUDP += right.firstByUDP
  }

  var text: String {
    """
    drawn: \(runs) runs, \(failures.count) failures, \(messages) messages, \(firstByUDP) first by UDP, \(late) late in \
    \(runsWithLate) runs, \(again) sent again, \(escalated) escalated
    \(network.text)
    """
  }
}
