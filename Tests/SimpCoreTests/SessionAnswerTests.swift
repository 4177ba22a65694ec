import Testing

@testable import SimpCore

@Suite struct SessionAnswerTests {
  /// One that says nothing takes two bytes, and is there.
  @Test func aCounterWithoutNameAndValueIsOne() throws {
    let counters = ["", "simp_logins_total", ""].map { SessionAnswer.Counter(name: $0, value: UInt64($0.utf8.count)) }
    var payload: [UInt8] = []
    SessionAnswer.counters(counters).append(to: &payload)
    #expect(Array(payload.prefix(2)) == [0x0A, 0] && Array(payload.suffix(2)) == [0x0A, 0])
    #expect(try SessionAnswer(.counters, reading: payload.span) == .counters(counters))
  }
}
