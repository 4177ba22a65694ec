import Testing

@testable import SimpCore

@Suite struct OutcomeQueueTests {
  private let start = Instant(nanoseconds: 1_000_000_000)

  @Test func ordersOfOneSubjectShareAnOutcome() {
    var queue = OutcomeQueue()
    for order: UInt64 in [5, 6, 7, 3, 9, 8, 6] { queue.add(.delivered, user: "a", device: 1, order: order, now: start) }
    queue.add(.delivered, user: "a", device: 2, order: 5, now: start)
    let taken = queue.take(now: start)
    #expect(taken.map(\.orders) == [[3...3, 5...9], [5...5]])
    #expect(queue.isEmpty && queue.deadline == nil)
  }

  @Test func whatIsKeptStandsApartAndIsGathered() {
    var queue = OutcomeQueue()
    queue.add(.delivered, user: "a", order: 2, now: start)
    for orders: ClosedRange<UInt64> in [1...4, 5...9, 2...3, 12...20, 1...13] {
      queue.add(kept: .delivered, user: "a", orders: orders, now: start)
    }
    let taken = queue.take(now: start)
    #expect(taken.map(\.isKept) == [false, true])
    #expect(taken.map(\.orders) == [[2...2], [1...20]])
  }

  /// A client may write any order, and is told what became of it.
  @Test func theHighestOrderOfAllIsAnOrder() {
    var queue = OutcomeQueue()
    for order: UInt64 in [.max, 5, .max, .max - 1, 0] { queue.add(.rejected, user: "a", order: order, now: start) }
    #expect(queue.take(now: start).map(\.orders) == [[0...0, 5...5, UInt64.max - 1...UInt64.max]])
  }

  @Test func atOnceAfterIdleThenAtMostEveryHundredMilliseconds() {
    var queue = OutcomeQueue()
    queue.add(.delivered, user: "a", order: 1, now: start)
    #expect(queue.deadline == start)
    _ = queue.take(now: start)
    queue.add(.delivered, user: "a", order: 2, now: start + .milliseconds(1))
    #expect(queue.deadline == start + .milliseconds(100))
    _ = queue.take(now: start + .milliseconds(100))
    queue.add(.delivered, user: "a", order: 3, now: start + .milliseconds(500))
    #expect(queue.deadline == start + .milliseconds(500))
  }

  @Test func acceptedAloneWaitsForTheDeliveredThatFollows() {
    var queue = OutcomeQueue()
    queue.add(.accepted, user: "a", order: 1, now: start)
    #expect(queue.deadline == start + .milliseconds(5))
    queue.add(.delivered, user: "a", order: 1, now: start + .milliseconds(2))
    #expect(queue.deadline == start)
    let states = queue.take(now: start).map(\.state)
    #expect(states == [.accepted, .delivered])
  }

  @Test func aReceiptHoldsSoMuchAndTheRestFollows() {
    var queue = OutcomeQueue()
    for number in 0..<WireLimits.maximumOutcomes + 3 {
      queue.add(.delivered, user: "u\(number)", order: 1, now: start)
    }
    let first = queue.take(now: start)
    #expect(first.count == WireLimits.maximumOutcomes && first[0].user == "u0")
    let second = queue.take(now: start)
    #expect(second.count == 3 && queue.isEmpty)
  }

  /// The longest names, codes and orders of a full receipt fit a packet.
  @Test func aFullReceiptFitsAPacket() {
    var queue = OutcomeQueue()
    for number in 0..<WireLimits.maximumOutcomes {
      let user = "\(number)" + String(repeating: "x", count: 61)
      queue.add(.later, user: user, device: 1 << 24 - 1, order: 1 << 40 - 1, code: .notOnline, now: start)
    }
    var bytes: [UInt8] = []
    Receipt(outcomes: queue.take(now: start)).append(to: &bytes)
    #expect(bytes.count + WireLimits.headerBytes <= WireLimits.maximumPacketBytes)
  }
}
