import SimpCore
import Testing

@testable import SimpServer

@Suite struct UserRatesTests {
  private let start = Instant(nanoseconds: 5_000_000_000)

  @Test func sessionsOfAUserShareItsRateAndANewLoginIsNoWayAround() {
    let rates = UserRates(messagesPerSecond: 10, bytesPerSecond: 0)
    let first = rates.begin("alice", now: start)
    let second = rates.begin("alice", now: start)
    for _ in 0..<10 {
      #expect(first.take(bytes: 1, now: start) == nil)
      #expect(second.take(bytes: 1, now: start) == nil)
    }
    #expect(first.take(bytes: 1, now: start) != nil)
    rates.end(first)
    rates.end(second)
    let third = rates.begin("alice", now: start)
    #expect(third.take(bytes: 1, now: start) != nil)
    let other = rates.begin("bob", now: start)
    #expect(other.take(bytes: 1, now: start) == nil)
  }

  @Test func whatFailsByBytesCostsNoMessage() {
    let rates = UserRates(messagesPerSecond: 1, bytesPerSecond: 1000)
    let rate = rates.begin("alice", now: start)
    #expect(rate.take(bytes: WireLimits.maximumPacketBytes, now: start) == nil)
    #expect(rate.take(bytes: 10, now: start).map { $0 < .seconds(1) } == true)
    // The second message of the burst is still there.
    #expect(rate.take(bytes: 10, now: start + .milliseconds(20)) == nil)
  }

  @Test func withoutALimitEverythingPasses() {
    let rate = UserRates(messagesPerSecond: 0, bytesPerSecond: 0).begin("alice", now: start)
    let waits = (0..<10_000).compactMap { _ in rate.take(bytes: 1 << 20, now: start) }
    #expect(waits.isEmpty)
  }

  @Test func whatIsLeftWithStrangersHasADailyMeasure() {
    let rates = UserRates(messagesPerSecond: 0, bytesPerSecond: 0, strangerBytes: 864_000)
    let rate = rates.begin("alice", now: start)
    rate.reachedStranger(bytes: 863_999, now: start)
    #expect(rate.reachesStrangers(now: start))
    rate.reachedStranger(bytes: 200, now: start)
    rates.end(rate)
    let again = rates.begin("alice", now: start + .seconds(19))
    #expect(!again.reachesStrangers(now: start + .seconds(19)))
    #expect(again.reachesStrangers(now: start + .seconds(21)))
    #expect(!UserRates(messagesPerSecond: 0, bytesPerSecond: 0).begin("bob", now: start).reachesStrangers(now: start))
  }

  @Test func usersWhoLeftAreForgottenWhenTheirBucketIsFullAgain() {
    let rates = UserRates(messagesPerSecond: 10, bytesPerSecond: 1000)
    let stays = rates.begin("stays", now: start)
    var now = start
    for number in 0..<100_000 {
      now = now + .milliseconds(2)
      let rate = rates.begin("user\(number)", now: now)
      _ = rate.take(bytes: 1, now: now)
      rates.end(rate)
    }
    // Two seconds bring a thousand of them; the table doubles before it is swept.
    #expect(rates.count < 2500)
    for _ in 0..<20 { #expect(stays.take(bytes: 1, now: now) == nil) }
    #expect(stays.take(bytes: 1, now: now) != nil)
  }
}
