import SimpConnection
import SimpCore
import SimpSupport
import Testing

@testable import SimpBench

struct ScheduleTests {
  private let start = Instant(nanoseconds: 1_000_000_000)

  @Test func pairsTakeTurns() {
    let schedule = Schedule(start: start, rate: 1000, pairs: 4)
    #expect(schedule.due(0, pair: 0) == start)
    #expect(schedule.due(0, pair: 3) == start + .milliseconds(3))
    #expect(schedule.due(1, pair: 0) == start + .milliseconds(4))
    #expect(schedule.due(250, pair: 0) == start + .seconds(1))
  }

  @Test func errorsDoNotAddUp() {
    // A day at a rate whose period is no whole number of nanoseconds.
    let schedule = Schedule(start: start, rate: 30_000, pairs: 1)
    #expect(schedule.due(30_000 * 86_400, pair: 0) == start + .seconds(86_400))
  }

  @Test func countsWhatIsDue() {
    let schedule = Schedule(start: start, rate: 1000, pairs: 4)
    #expect(schedule.count(before: start) == 0)
    #expect(schedule.count(before: start + .milliseconds(1)) == 1)
    #expect(schedule.count(before: start + .seconds(2)) == 2000)
  }

  @Test func readsAPlan() throws {
    let plan = try plan(["--pairs", "32", "--rate", "1.5k", "-s", "200", "-d", "10", "--loss", "5%", "--delay", "20"])
    #expect(plan.pairs == 32 && plan.rate == 1500 && plan.size == 200)
    #expect(plan.duration == .seconds(10))
    #expect(plan.impairment?.loss == 0.05)
    #expect(plan.impairment?.delay == .milliseconds(20))
    #expect(try self.plan(["-d", "250ms"]).duration == .milliseconds(250))
    #expect(try self.plan([]).impairment == nil)
  }

  @Test(arguments: [
    ["--rate", "fast"], ["--rate", "0"], ["-s", "45"], ["--pairs", "0"], ["--loss", "2"], ["-d", "soon"],
    ["--loss", "5%", "--no-udp"], ["--key", "x"], ["--server", "x"],
  ])
  func refusesNonsense(_ arguments: [String]) {
    #expect(throws: UsageError.self) {
      _ = try plan(arguments)
      _ = try Target(settings(arguments))
    }
  }

  private func settings(_ arguments: [String]) throws -> Settings {
    let flags = PairCommand.subcommand.flags
    return try Settings(
      flags: flags, arguments: ArgumentReader(flags: flags).read(arguments), environment: { _ in nil })
  }

  private func plan(_ arguments: [String]) throws -> PairPlan { try PairPlan(settings(arguments)) }
}
