import Testing

@testable import SimpBench

/// The checker against histories that are bad in one way each, and against good ones that look suspicious.
struct HistoryCheckTests {
  /// A history in the making: alice (device 1) sends to bob (user 2, device 2, or what a test says).
  struct History {
    var events: [HistoryEvent] = []
    var time: UInt64 = 0

    init(bobHasStore: Bool = false, byHand: Bool = false, aliceHasStore: Bool = false) {
      add(.run(id: 7, seed: 1))
      add(.device(.init(number: 1, user: 1, name: "alice", hasStore: aliceHasStore)))
      add(.device(.init(number: 2, user: 2, name: "bob", hasStore: bobHasStore, acknowledgesByHand: byHand)))
      add(.life(device: 1, life: 1))
      add(.life(device: 2, life: 1))
    }

    mutating func add(_ what: HistoryEvent.What) {
      time += 1000
      events.append(HistoryEvent(time: time, what: what))
    }

    static func name(_ number: UInt32, life: UInt32 = 1) -> MessageName {
      MessageName(device: 1, life: life, to: 2, number: number)
    }

    mutating func send(_ numbers: ClosedRange<UInt32>, life: UInt32 = 1) {
      for number in numbers {
        add(.send(Self.name(number, life: life)))
        add(.took(Self.name(number, life: life)))
      }
    }

    mutating func show(
      _ number: UInt32, of sent: UInt32 = 1, by device: UInt32 = 2, in life: UInt32 = 1, from: String = "alice",
      isLate: Bool = false, again isRedelivered: Bool = false
    ) {
      add(
        .delivery(
          .init(
            device: device, life: life, message: Self.name(number, life: sent), from: from, isLate: isLate,
            isRedelivered: isRedelivered)))
    }

    mutating func acknowledge(_ number: UInt32) {
      add(.acknowledging(Self.name(number), by: 2))
      add(.acknowledged(Self.name(number), by: 2))
    }

    mutating func die(_ device: UInt32, _ life: UInt32, isKilled: Bool = true) {
      add(.over(device: device, life: life, isKilled: isKilled))
      add(.life(device: device, life: life + 1))
    }

    mutating func receipt(_ number: UInt32, _ state: ReceiptState) { add(.receipt(Self.name(number), state)) }

    /// The verdict over its lines: what a history is when it is read back.
    func verdict(_ finish: HistoryEvent.Finish? = .drained) -> HistoryVerdict {
      var history = self
      if let finish { history.add(.finish(finish)) }
      var check = HistoryCheck()
      for event in history.events {
        let read = HistoryEvent(line: event.line)
        #expect(read == event, "\(event.line)")
        check.note(read ?? event)
      }
      return check.verdict
    }
  }

  private func expect(
    _ history: History, _ counts: [HistoryVerdict.Fault: UInt64], finish: HistoryEvent.Finish? = .drained,
    says word: String = "", _ location: SourceLocation = #_sourceLocation
  ) {
    let verdict = history.verdict(finish)
    #expect(verdict.counts == counts, "\(verdict.report)", sourceLocation: location)
    #expect(verdict.isGood == counts.isEmpty, sourceLocation: location)
    #expect(verdict.report.contains(word), "\(verdict.report)", sourceLocation: location)
  }

  // MARK: - Good

  @Test func allShownInOrderIsGood() {
    var history = History()
    history.send(1...100)
    for number: UInt32 in 1...100 {
      history.show(number)
      history.receipt(number, .accepted)
      history.receipt(number, .delivered)
    }
    expect(history, [:], says: "verdict     good")
    let verdict = history.verdict()
    #expect(verdict.sent == 100 && verdict.delivered == 100 && verdict.offered == 100)
    #expect(verdict.receipts == [.accepted: 100, .delivered: 100])
    #expect(verdict.longest == 299_000 && verdict.longestMessage == History.name(100))
  }

  @Test func eventsOfTwoProcessesMayComeMixed() {
    var history = History()
    history.show(1)
    history.receipt(1, .delivered)
    history.send(1...1)
    expect(history, [:])
  }

  @Test func shownAgainUnacknowledgedAfterAKillIsGood() {
    var history = History(bobHasStore: true, byHand: true)
    history.send(1...3)
    history.show(1)
    history.acknowledge(1)
    history.show(2)
    history.show(3)
    history.die(2, 1)
    history.show(2, in: 2, again: true)
    history.show(3, in: 2, again: true)
    history.acknowledge(2)
    history.acknowledge(3)
    expect(history, [:])
    #expect(history.verdict().redelivered == 2)
  }

  @Test func killedInTheMiddleOfAcknowledgingMayMeanBoth() {
    for isShownAgain in [false, true] {
      var history = History(bobHasStore: true, byHand: true)
      history.send(1...1)
      history.show(1)
      history.add(.acknowledging(History.name(1), by: 2))
      history.die(2, 1)
      if isShownAgain { history.show(1, in: 2, again: true) }
      expect(history, [:])
    }
  }

  @Test func whatWasNotTakenMayBeMissingOrThere() {
    var history = History(aliceHasStore: true)
    history.add(.send(History.name(1)))
    history.add(.send(History.name(2)))
    history.die(1, 1)
    history.show(2)
    history.send(1...1, life: 2)
    history.show(1, of: 2)
    expect(history, [:])
  }

  @Test func givenUpAndNotShownIsGood() {
    var history = History()
    history.send(1...2)
    history.receipt(1, .rejected)
    history.receipt(2, .stored)
    history.receipt(2, .expired)
    expect(history, [:])
  }

  @Test func anotherProgramWithoutAStoreMayBeShownWhatItsSenderWasNotToldOf() {
    var history = History()
    history.send(1...1)
    history.show(1)
    history.die(2, 1, isKilled: false)
    history.add(.device(.init(number: 3, user: 2, name: "bob")))
    history.add(.life(device: 3, life: 1))
    history.show(1, by: 3)
    history.receipt(1, .delivered)
    expect(history, [:])
    #expect(history.verdict().shownToAnother == 1)
  }

  @Test func aSenderThatWasKilledMayHaveForgottenThatHeWasTold() {
    for isKilled in [true, false] {
      var history = History(aliceHasStore: true)
      history.send(1...1)
      history.show(1)
      history.receipt(1, .delivered)
      history.die(1, 1, isKilled: isKilled)
      history.die(2, 1, isKilled: false)
      history.add(.device(.init(number: 3, user: 2, name: "bob")))
      history.add(.life(device: 3, life: 1))
      history.show(1, by: 3)
      expect(history, isKilled ? [:] : [.doubled: 1])
    }
  }

  @Test func whatIsOpenInARunThatWasInterruptedIsNotLost() {
    var history = History()
    history.send(1...3)
    history.show(1)
    expect(history, [:], finish: .interrupted, says: "2 unfinished")
    expect(history, [:], finish: nil, says: "stops in the middle")
    expect(history, [.lost: 2])
  }

  @Test func whatASenderWithoutAStoreTookWithItIsNotLost() {
    var history = History()
    history.send(1...1)
    history.add(.over(device: 1, life: 1, isKilled: false))
    expect(history, [:], says: "1 unfinished")
  }

  // MARK: - Bad

  @Test func missingIsLost() {
    var history = History()
    history.send(1...10)
    for number: UInt32 in 1...10 where number != 4 { history.show(number) }
    expect(history, [.lost: 1], says: "message 4 of device 1")
  }

  @Test func killedWithAStoreExcusesNothing() {
    var history = History(aliceHasStore: true)
    history.send(1...1)
    history.die(1, 1)
    expect(history, [.lost: 1])
  }

  @Test func openWhenTheTimeIsOverIsStuck() {
    var history = History()
    history.send(1...2)
    history.show(1)
    history.receipt(2, .later)
    expect(history, [.stuck: 1], finish: .timeout, says: "its last receipt is later")
  }

  @Test func shownTwiceInALifeIsDoubled() {
    var history = History()
    history.send(1...2)
    history.show(1)
    history.show(1)
    history.show(2)
    expect(history, [.doubled: 1], says: "in the same life")
  }

  @Test func shownAgainAfterItWasAcknowledgedIsDoubled() {
    var history = History(bobHasStore: true, byHand: true)
    history.send(1...1)
    history.show(1)
    history.acknowledge(1)
    history.die(2, 1)
    history.show(1, in: 2, again: true)
    expect(history, [.doubled: 1], says: "it was acknowledged in life 1")
  }

  @Test func whatWasTakenWithAStoreIsNeverShownAgain() {
    var history = History(bobHasStore: true)
    history.send(1...1)
    history.show(1)
    history.die(2, 1, isKilled: false)
    history.show(1, in: 2, again: true)
    expect(history, [.doubled: 1])
  }

  @Test func shownAgainWithoutTheMarkIsDoubled() {
    var history = History(bobHasStore: true, byHand: true)
    history.send(1...1)
    history.show(1)
    history.die(2, 1)
    history.show(1, in: 2)
    history.acknowledge(1)
    expect(history, [.doubled: 1], says: "not marked as shown before")
  }

  @Test func shownToAnotherProgramAfterItsSenderWasToldIsDoubled() {
    var history = History()
    history.send(1...1)
    history.show(1)
    history.receipt(1, .delivered)
    history.die(2, 1, isKilled: false)
    history.add(.device(.init(number: 3, user: 2, name: "bob")))
    history.add(.life(device: 3, life: 1))
    history.show(1, by: 3)
    expect(history, [.doubled: 1], says: "was told DELIVERED")
  }

  @Test func shownUnacknowledgedAndNeverAgainIsLost() {
    var history = History(bobHasStore: true, byHand: true)
    history.send(1...1)
    history.show(1)
    history.die(2, 1)
    expect(history, [.lost: 1], says: "without acknowledging it")
  }

  @Test func anEarlierOneAfterALaterOneIsOutOfOrder() {
    var history = History()
    history.send(1...3)
    for number: UInt32 in [1, 3, 2] { history.show(number) }
    expect(history, [.outOfOrder: 1], says: "message 2 of device 1")
  }

  @Test func markedAsLateIsOutOfOrder() {
    var history = History()
    history.send(1...2)
    history.show(2)
    history.show(1, isLate: true)
    expect(history, [.outOfOrder: 1], says: "marked as late")
  }

  @Test func theOrderHoldsOverTheLivesOfBothEnds() {
    var history = History(bobHasStore: true, byHand: true, aliceHasStore: true)
    history.send(1...1)
    history.die(1, 1)
    history.send(1...1, life: 2)
    history.show(1, of: 2)
    history.acknowledge(1)
    history.die(2, 1)
    history.show(1, of: 1, in: 2)
    expect(history, [.lost: 1, .outOfOrder: 1])
  }

  @Test func whatIsShownAgainKeepsItsOrder() {
    var history = History(bobHasStore: true, byHand: true)
    history.send(1...2)
    history.show(1)
    history.show(2)
    history.die(2, 1)
    history.show(2, in: 2, again: true)
    history.show(1, in: 2, again: true)
    expect(history, [.outOfOrder: 1])
  }

  @Test func conversationsDoNotWaitForOneAnother() {
    var history = History()
    history.add(.device(.init(number: 9, user: 9, name: "carol")))
    history.send(1...2)
    history.show(1)
    let other = MessageName(device: 9, life: 1, to: 2, number: 1)
    history.add(.took(other))
    history.add(.delivery(.init(device: 2, life: 1, message: other, from: "carol")))
    history.show(2)
    expect(history, [:])
  }

  @Test func aDamagedMessageIsCorrupt() {
    var history = History()
    history.add(.delivery(.init(device: 2, life: 1, message: nil, from: "alice")))
    expect(history, [.corrupt: 1])
  }

  @Test func aMessageNobodySentIsInvented() {
    var history = History()
    history.send(1...1)
    history.show(1)
    history.show(2)
    expect(history, [.invented: 1], says: "never sent")
  }

  @Test func anotherNameOrAnotherReaderIsMisdirected() {
    var history = History()
    history.add(.device(.init(number: 3, user: 3, name: "eve")))
    history.send(1...2)
    history.show(1)
    history.show(2, from: "mallory")
    expect(history, [.misdirected: 1, .lost: 1], says: "came from mallory")
    history = History()
    history.add(.device(.init(number: 3, user: 3, name: "eve")))
    history.send(1...1)
    history.show(1)
    history.show(1, by: 3)
    expect(history, [.misdirected: 1])
  }

  @Test(arguments: [ReceiptState.stored, .delivered, .read])
  func aReceiptForWhatNeverCameLied(state: ReceiptState) {
    var history = History()
    history.send(1...1)
    history.receipt(1, state)
    // That its sender ended is no excuse: it was free to go.
    history.add(.over(device: 1, life: 1, isKilled: false))
    expect(history, [.lied: 1, .lost: 1], says: "was told \(state.rawValue)")
  }

  @Test(arguments: [ReceiptState.rejected, .expired])
  func givenUpAndShownAllTheSameLied(state: ReceiptState) {
    var history = History()
    history.send(1...1)
    history.receipt(1, state)
    history.show(1)
    expect(history, [.lied: 1], says: "told \(state.rawValue), and it was shown")
  }

  @Test func aFinalReceiptIsFinal() {
    for (first, then) in [
      (ReceiptState.delivered, ReceiptState.later), (.stored, .later), (.read, .delivered), (.delivered, .stored),
    ] {
      var history = History()
      history.send(1...1)
      history.receipt(1, first)
      history.receipt(1, then)
      history.show(1)
      expect(history, [.lied: 1], says: "\(then.rawValue) was said after \(first.rawValue)")
    }
  }

  @Test func witnessesAreFewAndTheRestIsCounted() {
    var history = History()
    history.send(1...100)
    let verdict = history.verdict()
    #expect(verdict[.lost] == 100 && verdict.witnesses[.lost]?.count == HistoryVerdict.witnessLimit)
    #expect(verdict.report.contains("and 95 more"))
  }

  // MARK: - Lines

  @Test(arguments: [
    "", "{}", "{\"t\":1}", "[]", "{\"t\":1,\"e\":\"send\",\"dev\":1,\"life\":1,\"to\":2,\"n\":0}",
    "{\"t\":1,\"e\":\"send\",\"dev\":1,\"life\":1,\"to\":2,\"n\":1", "{\"t\":-1,\"e\":\"start\",\"dev\":1,\"life\":1}",
    "{\"t\":1,\"e\":\"send\",\"dev\":1,\"life\":1,\"to\":2,\"n\":1}}",
    "{\"t\":nan,\"e\":\"start\",\"dev\":1,\"life\":1}",
    "{\"t\":1,\"e\":\"receipt\",\"dev\":1,\"life\":1,\"to\":2,\"n\":1,\"state\":\"gone\"}",
    "{\"t\":1,\"e\":\"start\",\"dev\":99999999999,\"life\":1}", "{\"t\":1,\"e\":\"start\",\"dev\":[1],\"life\":1}",
    "{\"t\":1,\"e\":\"run\",\"version\":2,\"run\":1,\"seed\":1}",
  ])
  func whatIsNoEventIsNotRead(line: String) {
    #expect(HistoryEvent(line: line) == nil)
  }
}
