import SimpCore
import Testing

@testable import SimpServer

@Suite struct TokenBucketTests {
  private let start = Instant(nanoseconds: 5_000_000_000)

  @Test func aBurstPassesThenTheRate() {
    var bucket = TokenBucket(perSecond: 10, burst: 20)
    for _ in 0..<20 { #expect(bucket.take(now: start) == nil) }
    let wait = bucket.take(now: start)
    #expect(wait.map { $0 > .milliseconds(99) && $0 <= .milliseconds(101) } == true)
    // Half the time is not enough, all of it is, and then one passes.
    #expect(bucket.take(now: start + .milliseconds(50)) != nil)
    #expect(bucket.take(now: start + .milliseconds(101)) == nil)
    #expect(bucket.take(now: start + .milliseconds(101)) != nil)
    // Rest fills it to the burst, and no further.
    let later = start + .seconds(3600)
    for _ in 0..<20 { #expect(bucket.take(now: later) == nil) }
    #expect(bucket.take(now: later) != nil)
  }

  @Test func nothingIsTakenOfWhatDoesNotFit() {
    var bucket = TokenBucket(perSecond: 100, burst: 100)
    #expect(bucket.take(60, now: start) == nil)
    #expect(bucket.take(60, now: start) != nil)
    #expect(bucket.take(40, now: start) == nil)
  }

  @Test func moreThanABurstCostsABurst() {
    var bucket = TokenBucket(perSecond: 100, burst: 100)
    #expect(bucket.take(1_000_000, now: start) == nil)
    #expect(bucket.take(1_000_000, now: start + .milliseconds(500)) != nil)
    #expect(bucket.take(1_000_000, now: start + .milliseconds(1001)) == nil)
  }

  @Test func aClockThatStandsStillGivesNothing() {
    var bucket = TokenBucket(perSecond: 1_000_000, burst: 1)
    #expect(bucket.take(now: start) == nil)
    #expect(bucket.take(now: start) != nil)
    #expect(bucket.take(now: Instant(nanoseconds: 1)) != nil)
  }

  @Test func theLogKeepsCountOfWhatItDrops() {
    var budget = LogBudget(linesPerSecond: 5)
    let written = (0..<1000).compactMap { _ in budget.line(now: start) }
    #expect(written == Array(repeating: 0, count: 20))
    #expect(budget.line(now: start + .seconds(1)) == 980)
    #expect(budget.line(now: start + .seconds(1)) == 0)
  }
}
