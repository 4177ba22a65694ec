import SimpCore
import Testing

@testable import SimpServer

@Suite struct LoadGaugeTests {
  @Test func aLoopThatComesLateIsOverloadedForAWhile() {
    var gauge = LoadGauge(limit: .milliseconds(250))
    var now = Instant(nanoseconds: 1_000_000_000)
    #expect(!gauge.isOverloaded(now: now + .seconds(100)), "before it is looked at")
    for _ in 0..<10 {
      let due = gauge.tick(now: now)
      #expect(!gauge.isOverloaded(now: due + .milliseconds(250)))
      now = due + .milliseconds(240)
    }
    let due = gauge.tick(now: now)
    // Seen in the turn that takes too long, and after it.
    #expect(gauge.isOverloaded(now: due + .milliseconds(251)))
    now = due + .milliseconds(300)
    _ = gauge.tick(now: now)
    #expect(gauge.isOverloaded(now: now + .milliseconds(10)))
    var next = gauge.due
    while next < now + .milliseconds(950) { next = gauge.tick(now: next) }
    #expect(gauge.isOverloaded(now: now + .milliseconds(999)))
    #expect(!gauge.isOverloaded(now: now + .milliseconds(1001)))
  }
}
