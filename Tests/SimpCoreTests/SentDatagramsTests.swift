import Testing

@testable import SimpCore

@Suite struct SentDatagramsTests {
  private let start = Instant(nanoseconds: 1_000_000_000)

  private func at(_ milliseconds: Int64) -> Instant { start + .milliseconds(milliseconds) }
  private func key(_ number: UInt64) -> MessageKey { MessageKey(conversation: 0, order: number + 1) }

  private func send(
    _ count: Int = 1, at now: Instant, wanted: Bool = false, eliciting: Bool = true, bytes: Int = 1000,
    in sent: inout SentDatagrams
  ) {
    for _ in 0..<count {
      var datagram = SentDatagram(eliciting: eliciting, sent: now)
      datagram.number = sent.takeNumber()
      datagram.bytes = bytes
      datagram.wanted = wanted
      datagram.messages = eliciting ? [key(datagram.number)] : []
      sent.insert(datagram)
    }
  }

  private func receipt(_ ranges: ClosedRange<UInt64>..., delay: Interval = .zero) -> DatagramReceipt {
    DatagramReceipt(ranges: ranges, delay: delay)
  }

  @Test func threeLaterOnesMakeALoss() throws {
    var sent = SentDatagrams()
    send(4, at: at(0), in: &sent)
    var verdict = try sent.receive(receipt(2...2), byUDP: true, now: at(20))
    #expect(verdict.lost.isEmpty && verdict.taken.map(\.key) == [key(2)])
    verdict = try sent.receive(receipt(2...3), byUDP: true, now: at(20))
    #expect(verdict.lost.map(\.number) == [0] && verdict.lost.map(\.key) == [key(0)])
    #expect(sent.lostCount == 1 && sent.bytesInFlight == 1000)
  }

  /// Probes do not ask the window; what they may add to it has an end.
  @Test func moreThanTheWindowAndADatagramIsOverfull() {
    var sent = SentDatagrams()
    send(13, at: at(0), in: &sent)
    #expect(sent.bytesInFlight == 13_000 && !sent.isOverfull)
    send(at: at(0), in: &sent)
    #expect(sent.isOverfull)
  }

  /// Whoever copies datagrams from an address of his own must not make the way to the client unknown.
  @Test func aWayThatIsGoneBackToIsKnown() throws {
    var sent = SentDatagrams()
    send(at: at(0), in: &sent)
    _ = try sent.receive(receipt(0...0), byUDP: true, now: at(20))
    for _ in 0..<2 { sent.pathChanged(isOtherMachine: true) }
    #expect(sent.rtt.smoothed == WireTimes.initialRTT)
    _ = sent.pathRestored(now: at(30))
    #expect(sent.rtt.smoothed == .milliseconds(20))
    sent.pathChanged(isOtherMachine: true)
    sent.pathConfirmed()
    _ = sent.pathRestored(now: at(40))
    #expect(sent.rtt.smoothed == WireTimes.initialRTT, "it was proven, and is its own now")
  }

  /// It is the window of the proven way that is taken up again, not a new one.
  @Test func theWindowOfTheProvenWayIsKept() throws {
    var sent = SentDatagrams()
    send(8, at: at(0), in: &sent)
    _ = try sent.receive(receipt(7...7), byUDP: true, now: at(20))
    let window = sent.congestion.window
    #expect(window < WireLimits.initialCongestionWindow)
    sent.pathChanged(isOtherMachine: true)
    #expect(sent.congestion.window == WireLimits.initialCongestionWindow)
    _ = sent.pathRestored(now: at(21))
    #expect(sent.congestion.window == window)
  }

  /// What flew to an address that nobody proved fills no window, is no loss, and its messages leave again; what flew on
  /// the proven way flies on.
  @Test(arguments: [true, false]) func whatFlewElsewhereIsSentAgain(isOtherMachine: Bool) {
    var sent = SentDatagrams()
    send(2, at: at(0), in: &sent)
    sent.pathChanged(isOtherMachine: isOtherMachine)
    send(3, at: at(10), in: &sent)
    #expect(sent.bytesInFlight == 5000)
    let verdict = sent.pathRestored(now: at(20))
    #expect(verdict.lost.map(\.number) == [2, 3, 4])
    #expect(sent.bytesInFlight == 2000 && sent.lostCount == 0 && sent.congestion.congestionEvents == 0)
    #expect(sent.pathRestored(now: at(30)).lost.isEmpty)
  }

  @Test func nineEighthsOfARoundTripMakeALoss() throws {
    var sent = SentDatagrams()
    send(at: at(0), in: &sent)
    send(at: at(5), in: &sent)
    _ = try sent.receive(receipt(1...1), byUDP: true, now: at(85))
    // One sample of 80 ms: 90 ms after its sending the first is lost.
    #expect(sent.deadline == at(90))
    let (verdict, probe) = sent.expire(now: at(90))
    #expect(verdict.lost.map(\.number) == [0] && !probe)
    #expect(sent.deadline == nil && sent.bytesInFlight == 0)
  }

  @Test func aLossIsNotDeclaredEarly() throws {
    var sent = SentDatagrams()
    send(at: at(0), in: &sent)
    send(at: at(5), in: &sent)
    _ = try sent.receive(receipt(1...1), byUDP: true, now: at(85))
    let due = try #require(sent.deadline)
    let early = sent.expire(now: due + Interval(nanoseconds: -1))
    #expect(early.verdict.lost.isEmpty && !early.probe)
  }

  @Test func probeTimeoutsDoubleAndProgressResetsThem() throws {
    var sent = SentDatagrams()
    send(at: at(0), wanted: true, in: &sent)
    // No sample: 333 + 4 * 166.5 ms.
    #expect(sent.deadline == at(999))
    var result = sent.expire(now: at(998))
    #expect(!result.probe)
    result = sent.expire(now: at(999))
    #expect(result.probe && result.verdict.lost.isEmpty && sent.probeTimeouts == 1)
    #expect(sent.deadline == at(999 + 1998))
    _ = sent.expire(now: at(999 + 1998))
    // 3996 ms, cut to 3 s.
    #expect(sent.probeTimeouts == 2 && sent.deadline == at(999 + 1998 + 3000))
    #expect(sent.oldestMessages(limit: 5) == [key(0)])
    send(at: at(4000), wanted: true, in: &sent)
    _ = try sent.receive(receipt(1...1), byUDP: true, now: at(4020))
    #expect(sent.probeTimeouts == 0)
  }

  /// One sample of 20 ms, so that a probe timeout is 60 ms; then number 1 asks for its receipt, and others follow.
  private func thinFlow() throws -> SentDatagrams {
    var sent = SentDatagrams()
    send(at: at(0), wanted: true, in: &sent)
    _ = try sent.receive(receipt(0...0), byUDP: true, now: at(20))
    send(at: at(100), wanted: true, in: &sent)
    send(at: at(110), in: &sent)
    send(at: at(150), in: &sent)
    return sent
  }

  @Test func whatAskedForItsReceiptIsProbedThoughOthersFollowed() throws {
    var sent = try thinFlow()
    #expect(sent.deadline == at(160))
    #expect(sent.expire(now: at(160)).probe)
    // What left after it is not due.
    #expect(sent.oldestMessages(limit: 64) == [key(1)])
    _ = sent.expire(now: at(160 + 120))
    // Nothing is heard at all.
    #expect(sent.oldestMessages(limit: 64) == [key(1), key(2), key(3)])
  }

  @Test func aFlowThatFillsItsWindowWaitsForTheLast() throws {
    var sent = try thinFlow()
    send(4, at: at(150), in: &sent)
    // 7000 bytes of 12000: what asked stands in a queue perhaps.
    #expect(sent.deadline == at(150) + .milliseconds(60) + WireTimes.receiptDelay)
  }

  @Test func manySmallOnesAreNoThinFlow() throws {
    var sent = try thinFlow()
    #expect(sent.isThin)
    send(5, at: at(150), bytes: 100, in: &sent)
    #expect(sent.isThin)
    send(1, at: at(150), bytes: 100, in: &sent)
    #expect(!sent.isThin)
  }

  @Test func whatWasSentTwiceWaitsForTheCopy() throws {
    var sent = try thinFlow()
    sent.repeated(1)
    send(at: at(105), wanted: true, in: &sent)
    #expect(sent.deadline == at(165))
    sent.repeated(77)
    #expect(sent.deadline == at(165))
  }

  @Test func aReceiptThatMayWaitIsWaitedFor() {
    var sent = SentDatagrams()
    send(at: at(0), wanted: false, in: &sent)
    #expect(sent.deadline == at(999) + WireTimes.receiptDelay)
  }

  @Test func aSampleNeedsUDPANewLargestAndSomethingThatElicits() throws {
    var sent = SentDatagrams()
    send(4, at: at(0), in: &sent)
    send(1, at: at(0), eliciting: false, in: &sent)
    _ = try sent.receive(receipt(0...0), byUDP: false, now: at(10))
    _ = try sent.receive(receipt(0...4), byUDP: true, now: at(20))
    #expect(sent.rtt.latest == nil)
    send(1, at: at(30), in: &sent)
    _ = try sent.receive(receipt(0...5), byUDP: true, now: at(60))
    #expect(sent.rtt.latest == .milliseconds(30))
    _ = try sent.receive(receipt(0...5), byUDP: true, now: at(90))
    #expect(sent.rtt.latest == .milliseconds(30))
  }

  @Test func aNumberThatNeverLeftIsMalformed() {
    var sent = SentDatagrams()
    send(2, at: at(0), in: &sent)
    for range: ClosedRange<UInt64> in [2...2, 0...2, .max - 1 ... .max] {
      var copy = sent
      #expect(throws: WireError.malformed) { try copy.receive(receipt(range), byUDP: true, now: at(1)) }
    }
  }

  @Test func aReceiptMayComeLateOrTwice() throws {
    var sent = SentDatagrams()
    send(5, at: at(0), in: &sent)
    _ = try sent.receive(receipt(3...4), byUDP: true, now: at(20))
    #expect(sent.lostCount == 2)
    let verdict = try sent.receive(receipt(0...4), byUDP: true, now: at(25))
    #expect(verdict.taken.map(\.number) == [0, 1, 2] && sent.spuriousCount == 2)
    let again = try sent.receive(receipt(0...4), byUDP: true, now: at(26))
    #expect(again.taken.isEmpty && !again.progress && sent.bytesInFlight == 0)
  }

  @Test func whatWasAnsweredIsNotTaken() throws {
    var sent = SentDatagrams()
    send(3, at: at(0), in: &sent)
    let receipt = DatagramReceipt(ranges: [0...2], delay: .zero, answered: [1])
    let verdict = try sent.receive(receipt, byUDP: true, now: at(20))
    #expect(verdict.taken.map(\.number) == [0, 2] && verdict.answered.map(\.number) == [1])
  }

  @Test func aPathThatIsDownHasNothingInFlight() throws {
    var sent = SentDatagrams()
    send(10, at: at(0), in: &sent)
    sent.abandonFlight()
    #expect(sent.bytesInFlight == 0 && sent.deadline == nil && !sent.hasElicitingInFlight)
    let verdict = try sent.receive(receipt(0...9), byUDP: true, now: at(50))
    #expect(verdict.taken.count == 10)
  }

  /// Random receipts, twice and in any order: what is in flight is what is neither receipted nor lost.
  @Test func theBooksBalance() throws {
    for seed: UInt64 in 1...60 {
      var random = Seeded(seed)
      var sent = SentDatagrams()
      var arrived: Set<UInt64> = []
      var taken: Set<UInt64> = []
      var lost: Set<UInt64> = []
      for step: Int64 in 0..<300 {
        if random.next() % 3 != 0, sent.room > 0 {
          send(at: at(step), in: &sent)
          if random.next() % 4 != 0 { arrived.insert(sent.nextNumber - 1) }
        }
        if random.next() % 4 == 0, let receipt = Self.receipt(of: arrived) {
          let verdict = try sent.receive(receipt, byUDP: true, now: at(step))
          for (_, number) in verdict.taken { #expect(taken.insert(number).inserted, "seed \(seed)") }
          for (_, number) in verdict.lost { #expect(lost.insert(number).inserted, "seed \(seed)") }
        }
        if let deadline = sent.deadline, deadline <= at(step) {
          for (_, number) in sent.expire(now: at(step)).verdict.lost { lost.insert(number) }
        }
        let open = Set(0..<sent.nextNumber).subtracting(taken).subtracting(lost)
        #expect(sent.bytesInFlight == open.count * 1000, "seed \(seed), step \(step)")
        #expect(taken.isSubset(of: arrived))
      }
      #expect(!lost.isEmpty && !taken.isEmpty)
    }
  }

  private static func receipt(of numbers: Set<UInt64>) -> DatagramReceipt? {
    var ranges: [ClosedRange<UInt64>] = []
    for number in numbers.sorted(by: >) {
      if let last = ranges.last, last.lowerBound == number + 1 {
        ranges[ranges.count - 1] = number...last.upperBound
      } else {
        ranges.append(number...number)
      }
    }
    return ranges.isEmpty ? nil : DatagramReceipt(ranges: Array(ranges.prefix(32)), delay: .zero)
  }

  /// Every number that leaves is in order, some are missing, and who receipts a missing one receipts what never was.
  @Test func aReceiptOfASkippedNumberIsFalse() throws {
    var sent = SentDatagrams()
    sent.beginSkipping(seed: 77)
    var numbers: Set<UInt64> = []
    for _ in 0..<1000 {
      sent.skipIfDue(now: at(0))
      numbers.insert(sent.nextNumber)
      send(at: at(0), eliciting: false, in: &sent)
    }
    let missing = Set(0..<sent.nextNumber).subtracting(numbers)
    #expect(missing.count >= 2 && missing.count <= 8, "\(missing)")
    for number in missing {
      #expect(throws: WireError.malformed) {
        _ = try sent.receive(receipt(number...number), byUDP: true, now: at(20))
      }
    }
    #expect(throws: WireError.malformed) {
      _ = try sent.receive(receipt(0...sent.nextNumber - 1), byUDP: true, now: at(20))
    }
    // Honest ranges go round them, and losses are found across them.
    let first = missing.min() ?? 0
    _ = try sent.receive(receipt(first + 1...first + 1, 0...first - 1), byUDP: true, now: at(20))
  }

  @Test func lossesAndRangesBearSkippedNumbers() throws {
    var sent = SentDatagrams()
    sent.beginSkipping(seed: 3)
    var taken = 0
    var lost = 0
    var ranges: [ClosedRange<UInt64>] = []
    for round: Int64 in 0..<2000 {
      sent.skipIfDue(now: at(round))
      let number = sent.nextNumber
      send(at: at(round), wanted: true, in: &sent)
      // Every tenth is lost.
      if round % 10 == 9 { continue }
      ranges.insert(number...number, at: 0)
      if ranges.count > 8 { ranges.removeLast() }
      let verdict = try sent.receive(
        DatagramReceipt(ranges: ranges, delay: .zero), byUDP: true, now: at(round))
      taken += verdict.taken.count
      lost += verdict.lost.count
    }
    #expect(taken == 1800 && lost >= 198 && sent.bytesInFlight <= 3000, "\(taken) \(lost)")
  }

  /// A peer that makes us answer and never receipts: what is kept for receipts stays bounded.
  @Test func withheldReceiptsDoNotPileUp() {
    var sent = SentDatagrams()
    send(1, at: at(0), in: &sent)
    for _ in 0..<100_000 { send(1, at: at(1), eliciting: false, in: &sent) }
    #expect(sent.kept <= SentDatagrams.maximumKept + 1)
    send(1, at: at(2), in: &sent)
    #expect(sent.bytesInFlight == 1000)
  }
}
