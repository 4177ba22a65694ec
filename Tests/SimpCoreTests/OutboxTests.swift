import Testing

@testable import SimpCore

@Suite struct OutboxTests {
  private let now = Instant(nanoseconds: 1_000_000_000)

  /// An outbox whose first `count` messages to bob were offered, the device number given.
  private func offered(_ count: Int) throws -> Outbox {
    let outbox = Outbox(id: 7)
    outbox.adopt(deviceNumber: 3)
    for number in 1...count { _ = try outbox.append(MessageContent(text: "\(number)"), to: "bob", now: now) }
    for _ in 1...count { #expect(outbox.nextOffer() != nil) }
    #expect(outbox.nextOffer() == nil)
    return outbox
  }

  private func key(_ order: UInt64) -> MessageKey { MessageKey(conversation: 0, order: order) }

  /// Offers until nothing more is offered: the orders.
  private func offers(_ outbox: Outbox) -> [UInt64] {
    var orders: [UInt64] = []
    while let offer = outbox.nextOffer() { orders.append(offer.key.order) }
    return orders
  }

  @Test func numbersAreContiguousAConversationAndCountersRise() throws {
    let outbox = Outbox(id: 7)
    let first = try outbox.append(MessageContent(text: "a"), to: "bob", now: now)
    let second = try outbox.append(MessageContent(text: "b"), to: "carol", now: now)
    let third = try outbox.append(MessageContent(text: "c"), to: "bob", now: now)
    #expect([first.key.order, second.key.order, third.key.order] == [1, 1, 2])
    #expect([first.counter, second.counter, third.counter] == [1, 2, 3])
    #expect(outbox.messageId(of: first.key) == 0)
    outbox.adopt(deviceNumber: 3)
    #expect(outbox.messageId(of: third.key) == 3 << 40 | 3)
  }

  @Test func aFullOutboxTakesNothingAndUsesUpNoNumber() throws {
    let outbox = Outbox(id: 7, limitMessages: 2, limitBytes: 1000)
    _ = try outbox.append(MessageContent(text: "a"), to: "bob", now: now)
    #expect(throws: Outbox.Full.bytes) {
      try outbox.append(MessageContent(text: String(repeating: "x", count: 1000)), to: "bob", now: now)
    }
    let second = try outbox.append(MessageContent(text: "b"), to: "bob", now: now)
    #expect(second.key.order == 2 && second.counter == 2)
    #expect(throws: Outbox.Full.messages) { try outbox.append(MessageContent(text: "c"), to: "bob", now: now) }
    #expect(throws: Outbox.Full.nameInvalid) { try outbox.append(MessageContent(text: "c"), to: "b b", now: now) }
    #expect(throws: Outbox.Full.textInvalid) { try outbox.append(MessageContent(text: "\0"), to: "bob", now: now) }
    let large = MessageContent(text: String(repeating: "x", count: WireLimits.maximumPacketBytes))
    #expect(throws: Outbox.Full.tooLarge) { try outbox.append(large, to: "bob", now: now) }
  }

  @Test func theFloorIsTheLowestWithoutAFinalReceipt() throws {
    let outbox = try offered(4)
    _ = outbox.finish(key(2))
    #expect(outbox.floor(of: key(4)) == 1)
    _ = outbox.finish(key(1))
    #expect(outbox.floor(of: key(4)) == 3)
    _ = outbox.finish(key(3))
    _ = outbox.finish(key(4))
    #expect(outbox.floor(of: key(4)) == 5 && outbox.count == 0 && outbox.bytes == 0)
    #expect(outbox.finish(key(4)) == nil)
  }

  @Test func whatWasAnsweredLaterIsOfferedFromItsLowestOrder() throws {
    let outbox = try offered(4)
    for order: UInt64 in [3, 2, 4] { #expect(outbox.markLater(key(order), resume: now + .seconds(1))) }
    _ = try outbox.append(MessageContent(text: "5"), to: "bob", now: now)
    #expect(offers(outbox) == [])
    #expect(outbox.deadline == now + .seconds(1))
    outbox.resume(now: now + .milliseconds(999))
    #expect(offers(outbox) == [])
    outbox.resume(now: now + .seconds(1))
    #expect(offers(outbox) == [2])
    #expect(outbox.markAccepted(key(2), now: now + .seconds(1)))
    #expect(offers(outbox) == [3, 4])
    _ = outbox.markAccepted(key(3), now: now)
    #expect(offers(outbox) == [])
    _ = outbox.markAccepted(key(4), now: now)
    #expect(offers(outbox) == [5])
  }

  /// Where there was no room there is room for a few: batches double while they are taken, and shrink when they are not.
  @Test func whatFoundNoRoomFollowsInBatches() throws {
    let outbox = try offered(60)
    func refuse(_ orders: ClosedRange<UInt64>) {
      for order in orders { _ = outbox.markLater(key(order), code: .noRoom, resume: now + .seconds(1)) }
      #expect(offers(outbox) == [])
      outbox.resume(now: now + .seconds(1))
    }
    func take(_ orders: [UInt64]) { for order in orders { _ = outbox.markAccepted(key(order), now: now) } }
    refuse(1...60)
    #expect(offers(outbox) == [1])
    take([1])
    #expect(offers(outbox) == [2, 3, 4, 5])
    take([2, 3, 4])
    #expect(offers(outbox) == [], "the whole batch first")
    take([5])
    #expect(offers(outbox) == Array(6...13))
    take(Array(6...13))
    #expect(offers(outbox) == Array(14...29))
    take([14])
    refuse(15...29)
    #expect(offers(outbox) == [15])
    take([15])
    #expect(offers(outbox) == Array(16...23))
    take(Array(16...23))
    #expect(offers(outbox) == Array(24...39))
  }

  /// A copy that went another way may finish all of a batch before it is offered.
  @Test func aBatchThatIsFinishedBeforeItIsOfferedIsFollowedByTheNext() throws {
    let outbox = try offered(20)
    for order: UInt64 in 1...20 { _ = outbox.markLater(key(order), code: .noRoom, resume: now + .seconds(1)) }
    outbox.resume(now: now + .seconds(1))
    #expect(offers(outbox) == [1])
    for order: UInt64 in 1...9 { _ = outbox.finish(key(order)) }
    var offered: [UInt64] = []
    while let offer = outbox.nextOffer() {
      offered.append(offer.key.order)
      _ = outbox.finish(offer.key)
    }
    #expect(offered == Array(10...20) && outbox.count == 0)
  }

  @Test func otherConversationsDoNotWait() throws {
    let outbox = try offered(1)
    _ = outbox.markLater(key(1), resume: now + .seconds(1))
    _ = try outbox.append(MessageContent(text: "x"), to: "carol", now: now)
    #expect(outbox.nextOffer()?.key.conversation == 1)
  }

  @Test func aNewSessionOffersAgainBeforeWhatIsNewAndByTCP() throws {
    let outbox = try offered(3)
    _ = outbox.finish(key(2))
    _ = try outbox.append(MessageContent(text: "4"), to: "bob", now: now)
    outbox.sessionEnded()
    for expected: UInt64 in [1, 3] {
      let offer = try #require(outbox.nextOffer())
      #expect(offer.key.order == expected && offer.byTCP)
    }
    #expect(outbox.nextOffer() == nil)
    _ = outbox.markAccepted(key(1), now: now)
    _ = outbox.markAccepted(key(3), now: now)
    let fresh = try #require(outbox.nextOffer())
    #expect(fresh.key.order == 4 && !fresh.byTCP)
  }

  /// A LATER may come while others of its conversation still wait to be offered again, because the window was full.
  @Test func aLaterInTheMiddleOfOfferingAgainForgetsNobody() throws {
    let outbox = try offered(5)
    outbox.sessionEnded()
    #expect(outbox.nextOffer()?.key.order == 1)
    #expect(outbox.nextOffer()?.key.order == 2)
    _ = outbox.markLater(key(1), resume: now + .seconds(1))
    _ = outbox.markLater(key(2), resume: now + .seconds(1))
    #expect(offers(outbox) == [])
    outbox.resume(now: now + .seconds(1))
    #expect(offers(outbox) == [1])
    _ = outbox.markAccepted(key(1), now: now)
    #expect(offers(outbox) == [2, 3, 4, 5])
  }

  @Test func anotherDeviceNumberGivesNewMessageIds() throws {
    let outbox = try offered(1)
    let before = outbox.messageId(of: key(1))
    outbox.adopt(deviceNumber: 9)
    outbox.sessionEnded()
    #expect(outbox.messageId(of: key(1)) == 9 << 40 | before & 0xFF_FFFF_FFFF)
    let bytes = try #require(outbox.nextOffer()).message.bytes
    let payload = Array(bytes[16...])
    #expect(try MessageFields(reading: payload.span).deviceNumber == 9)
  }

  @Test func ordersStayWithinOneWindowOfTheFloor() throws {
    let outbox = Outbox(id: 7, limitMessages: 20_000)
    outbox.adopt(deviceNumber: 1)
    let window = Int(WireLimits.orderWindow)
    for _ in 0..<window + 10 { _ = try outbox.append(MessageContent(text: "x"), to: "bob", now: now) }
    #expect(offers(outbox).count == window)
    _ = outbox.finish(key(1))
    #expect(offers(outbox) == [WireLimits.orderWindow + 1])
  }
}
