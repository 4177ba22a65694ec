import Testing

@testable import SimpCore

@Suite struct ReceivedDatagramsTests {
  private let start = Instant(nanoseconds: 1_000_000_000)

  @Test func aReceiptWaitsItsTimeOrForThirtyTwo() {
    var received = ReceivedDatagrams()
    received.insert(0, eliciting: false, wanted: false, answered: false, now: start)
    #expect(received.deadline == nil)
    received.insert(1, eliciting: true, wanted: false, answered: false, now: start)
    #expect(received.deadline == start + WireTimes.receiptDelay)
    for number: UInt64 in 2...31 {
      received.insert(number, eliciting: true, wanted: false, answered: false, now: start + .milliseconds(1))
    }
    #expect(received.deadline == start + WireTimes.receiptDelay)
    received.insert(32, eliciting: true, wanted: false, answered: false, now: start + .milliseconds(1))
    #expect(received.deadline == start)
    let receipt = received.takeReceipt(now: start + .milliseconds(5))
    #expect(receipt?.ranges == [0...32])
    #expect(received.deadline == nil && !received.hasNews)
  }

  @Test(arguments: [false, true]) func aWishAndAGapAreAnsweredAtOnce(isWish: Bool) {
    var received = ReceivedDatagrams()
    received.insert(0, eliciting: true, wanted: false, answered: false, now: start)
    _ = received.takeReceipt(now: start)
    received.insert(isWish ? 1 : 2, eliciting: true, wanted: isWish, answered: false, now: start + .milliseconds(1))
    #expect(received.deadline == start + .milliseconds(1))
  }

  /// Refused datagrams lose their ranges to newer ones; then a gap closes, and a low number finds room again.
  @Test func onlyWhatARangeHoldsIsSaidToBeAnswered() {
    var received = ReceivedDatagrams()
    for number: UInt64 in stride(from: 0, through: 126, by: 2) {
      received.insert(number, eliciting: true, wanted: false, answered: true, now: start)
    }
    received.insert(65, eliciting: true, wanted: false, answered: false, now: start)
    received.insert(1, eliciting: true, wanted: false, answered: false, now: start)
    let receipt = received.takeReceipt(now: start)
    #expect(receipt?.ranges.last == 1...1)
    #expect(receipt?.answered == Array(stride(from: UInt64(64), through: 126, by: 2)))
  }

  /// Whoever has the keys may seal under any number.
  @Test func theHighestNumberOfAllIsANumber() {
    var received = ReceivedDatagrams()
    for number: UInt64 in [.max, .max - 2, 0, .max - 1, 1] {
      received.insert(number, eliciting: true, wanted: false, answered: false, now: start)
    }
    #expect(received.takeReceipt(now: start)?.ranges == [UInt64.max - 2...UInt64.max, 0...1])
  }

  @Test func theDelayCountsFromTheLargest() {
    var received = ReceivedDatagrams()
    received.insert(5, eliciting: true, wanted: false, answered: false, now: start)
    received.insert(3, eliciting: true, wanted: false, answered: false, now: start + .milliseconds(8))
    let receipt = received.takeReceipt(now: start + .milliseconds(10))
    #expect(receipt?.delay == .milliseconds(10))
  }

  @Test func rangesAreBoundedAndTheLowestGo() {
    var received = ReceivedDatagrams()
    for step: UInt64 in 0..<100 {
      received.insert(step * 2, eliciting: true, wanted: false, answered: false, now: start)
    }
    #expect(received.ranges.count == WireLimits.maximumReceiptRanges)
    #expect(received.ranges.first == 198...198 && received.ranges.last == 136...136)
  }

  /// ACCEPTED must not be said of messages that were refused: what cannot be named as answered is not named at all.
  @Test func whatWasRefusedAndForgottenIsNotReceipted() throws {
    var received = ReceivedDatagrams()
    let limit = UInt64(WireLimits.maximumAnsweredDatagrams)
    for number in 0..<limit + 10 {
      received.insert(number, eliciting: true, wanted: false, answered: number != 3, now: start)
    }
    let taken = received.takeReceipt(now: start)
    let receipt = try #require(taken)
    #expect(receipt.answered.count <= Int(limit))
    for number in 0..<limit + 10 where number != 3 && receipt.ranges.contains(where: { $0.contains(number) }) {
      #expect(receipt.answered.contains(number), "\(number) counts as taken")
    }
    #expect(receipt.ranges.first?.upperBound == limit + 9)
  }

  @Test func anyOrderOfArrivalGivesTheSameRanges() {
    var random = Seeded(11)
    for _ in 0..<200 {
      var received = ReceivedDatagrams()
      var naive: Set<UInt64> = []
      for _ in 0..<60 {
        let number = random.next() % 40
        guard naive.insert(number).inserted else { continue }
        received.insert(number, eliciting: true, wanted: false, answered: false, now: start)
      }
      #expect(received.ranges.flatMap { Array($0) }.sorted() == naive.sorted())
      for (upper, lower) in zip(received.ranges, received.ranges.dropFirst()) {
        #expect(upper.lowerBound > lower.upperBound + 1)
      }
    }
  }

  /// The three datagrams that prove a loss are receipted one by one, for one of the receipts may get lost as well.
  @Test func whatFollowsAGapIsReceiptedAtOnce() {
    let now = Instant(nanoseconds: 1_000_000_000)
    var received = ReceivedDatagrams()
    var atOnce: [UInt64] = []
    for number: UInt64 in [0, 1, 3, 4, 5, 6, 7, 9, 10] {
      received.insert(number, eliciting: true, wanted: false, answered: false, now: now)
      if received.wantedNow { atOnce.append(number) }
      _ = received.takeReceipt(now: now)
    }
    #expect(atOnce == [3, 4, 5, 9, 10])
  }
}
