import SimpCore
import Testing

@testable import SimpServer

@Suite struct UserRatesTests {
  private let start = Instant(nanoseconds: 5_000_000_000)

  private func begin(_ rates: UserRates, _ user: String, now: Instant) throws -> UserRate {
    let rate = rates.begin(user, now: now)
    return try #require(rate)
  }

  @Test func sessionsOfAUserShareItsRateAndANewLoginIsNoWayAround() throws {
    let rates = UserRates(messagesPerSecond: 10, bytesPerSecond: 0)
    let first = try begin(rates, "alice", now: start)
    let second = try begin(rates, "alice", now: start)
    for _ in 0..<10 {
      #expect(first.take(bytes: 1, now: start) == nil)
      #expect(second.take(bytes: 1, now: start) == nil)
    }
    #expect(first.take(bytes: 1, now: start) != nil)
    rates.end(first)
    rates.end(second)
    let third = try begin(rates, "alice", now: start)
    #expect(third.take(bytes: 1, now: start) != nil)
    let other = try begin(rates, "bob", now: start)
    #expect(other.take(bytes: 1, now: start) == nil)
  }

  @Test func whatFailsByBytesCostsNoMessage() throws {
    let rates = UserRates(messagesPerSecond: 1, bytesPerSecond: 1000)
    let rate = try begin(rates, "alice", now: start)
    #expect(rate.take(bytes: WireLimits.maximumPacketBytes, now: start) == nil)
    #expect(rate.take(bytes: 10, now: start).map { $0 < .seconds(1) } == true)
    // The second message of the burst is still there.
    #expect(rate.take(bytes: 10, now: start + .milliseconds(20)) == nil)
  }

  @Test func withoutALimitNothingIsKept() {
    let rates = UserRates(messagesPerSecond: 0, bytesPerSecond: 0)
    let rate = rates.begin("alice", now: start)
    #expect(rate == nil && rates.count == 0)
  }

  @Test func usersWhoLeftAreForgottenWhenTheirBucketIsFullAgain() throws {
    let rates = UserRates(messagesPerSecond: 10, bytesPerSecond: 1000)
    let stays = try begin(rates, "stays", now: start)
    var now = start
    for number in 0..<100_000 {
      now = now + .milliseconds(2)
      let rate = try begin(rates, "user\(number)", now: now)
      _ = rate.take(bytes: 1, now: now)
      rates.end(rate)
    }
    // Two seconds bring a thousand of them; the table doubles before it is swept.
    #expect(rates.count < 2500)
    for _ in 0..<20 { #expect(stays.take(bytes: 1, now: now) == nil) }
    #expect(stays.take(bytes: 1, now: now) != nil)
  }
}
