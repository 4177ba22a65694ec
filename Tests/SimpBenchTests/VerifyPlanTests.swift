import SimpSupport
import Testing

@testable import SimpBench

/// What a plan makes of users, and of flags.
struct VerifyPlanTests {
  private func plan(_ arguments: [String], isPrivate: Bool = true) throws(UsageError) -> VerifyPlan {
    let flags = VerifyPlan.flags
    let read = try ArgumentReader(flags: flags).read(arguments)
    return try VerifyPlan(try Settings(flags: flags, arguments: read), isPrivate: isPrivate)
  }

  @Test(arguments: [0, 1, 3, 4])
  func everyUserHasAHomeAndTheSharesAreAll(clients: Int) throws {
    let plan = try plan(["--users", "41", "--clients", "\(clients)"])
    let homes = (0..<41).map { plan.home(of: $0) }
    #expect(Set(homes) == Set(0...clients))
    let shares = (0...clients).map { plan.share(of: $0) }
    #expect(abs(shares.reduce(0, +) - 1) < 1e-9 && shares.allSatisfy { $0 > 0 })
    // A process that may be killed keeps what it has in stores, and says by hand what it took.
    for user in 0..<41 where homes[user] > 0 { #expect(plan.hasStore(user) && plan.acknowledgesByHand(user)) }
    #expect((0..<41).contains { plan.sendsOnly($0) } && (0..<41).contains { plan.listensOnly($0) })
    #expect(!(0..<41).contains { plan.sendsOnly($0) && plan.listensOnly($0) })
  }

  @Test func storesAreAsManyAsWereAskedFor() throws {
    for stores in [0, 1, 7, 20, 40] {
      let plan = try plan(["--users", "40", "--stores", "\(stores)"])
      #expect((0..<40).count { plan.hasStore($0) } == stores)
    }
  }

  @Test func aNumberOfMessagesAndATimeGiveTheRate() throws {
    #expect(try plan(["--messages", "1M", "--duration", "1000s"]).rate == 1000)
    #expect(try plan(["--messages", "600", "--rate", "100"]).duration >= .seconds(6))
    #expect(try plan([]).rate == 200)
  }

  @Test func chaosIsAllThatCanBeHad() throws {
    var kinds = Set(FaultKind.allCases)
    if FalseClock.library == nil { kinds.remove(.clockStep) }
    #expect(Set(try plan(["--chaos"]).faults.keys) == kinds)
    #expect(Set(try plan(["--chaos"], isPrivate: false).faults.keys) == [.clientKill])
    let some = try plan(["--chaos", "--server-kill", "0", "--tcp-cut", "3s"])
    #expect(some.faults[.serverKill] == nil && some.faults[.tcpCut] == .seconds(3) && some.clients == 4)
    #expect(throws: UsageError.self) { try plan(["--server-kill", "1"], isPrivate: false) }
  }
}
