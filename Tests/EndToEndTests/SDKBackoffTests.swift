import SimpCore
import Testing

@testable import SimpConnection

struct SDKBackoffTests {
  @Test func theBoundDoublesToItsLimit() {
    var backoff = Backoff(first: .milliseconds(50), last: .seconds(10))
    // The highest random number that is the whole bound: what is left of it by the bound plus 1 ns is the bound.
    func bound(_ milliseconds: Int64) -> UInt64 { UInt64(Interval.milliseconds(milliseconds).nanoseconds) }
    for milliseconds in [50, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] as [Int64] {
      #expect(backoff.next(retryAfter: .zero, random: bound(milliseconds)) == .milliseconds(milliseconds))
    }
  }

  @Test func theWaitIsAnywhereUpToTheBound() {
    var random = SplitMix(state: 3)
    let waits = (0..<1000).map { _ in
      var backoff = Backoff(first: .milliseconds(50), last: .seconds(10))
      return backoff.next(retryAfter: .zero, random: random.next()).milliseconds
    }
    #expect(waits.allSatisfy { (0...50).contains($0) })
    #expect(waits.count { $0 < 12.5 } > 200 && waits.count { $0 > 37.5 } > 200)
  }

  @Test func onlyAGoodSessionBeginsAnew() {
    var backoff = Backoff(first: .milliseconds(50), last: .seconds(10))
    for _ in 0..<5 { _ = backoff.next(retryAfter: .zero, random: 0) }
    backoff.sessionLasted(.milliseconds(9999))
    #expect(backoff.failures == 5)
    backoff.sessionLasted(.seconds(10))
    #expect(backoff.failures == 0)
  }

  @Test func theServersWaitIsKeptAndSpread() {
    var backoff = Backoff(first: .milliseconds(50), last: .seconds(10))
    #expect(backoff.next(retryAfter: .seconds(3), random: 7) == .seconds(3) + Interval(nanoseconds: 7))
    // A thousand that were told three seconds come over three seconds, not in the first 50 ms of them.
    var random = SplitMix(state: 3)
    let waits = (0..<1000).map { _ in
      var backoff = Backoff(first: .milliseconds(50), last: .seconds(10))
      return backoff.next(retryAfter: .seconds(3), random: random.next()).milliseconds
    }
    #expect(waits.allSatisfy { (3000...6000).contains($0) })
    for tenth in 0..<10 {
      let begin = 3000 + Double(tenth) * 300
      #expect(waits.count { (begin..<begin + 300).contains($0) } > 50)
    }
  }

  @Test func theServersSpreadIsKept() {
    var random = SplitMix(state: 5)
    let waits = (0..<1000).map { _ in
      var backoff = Backoff(first: .milliseconds(50), last: .seconds(10))
      return backoff.next(retryAfter: .milliseconds(500), spread: .seconds(30), random: random.next()).milliseconds
    }
    #expect(waits.allSatisfy { (500...30_500).contains($0) })
    for tenth in 0..<10 {
      let begin = 500 + Double(tenth) * 3000
      #expect(waits.count { (begin..<begin + 3000).contains($0) } > 50)
    }
  }
}
