import Testing

@testable import SimpCore

@Suite struct InboundConversationTests {
  private let start = Instant(nanoseconds: 1_000_000_000)

  private func message(_ order: UInt64, floor: UInt64 = 1, from: String = "alice") throws -> IncomingMessage {
    var encoded: [UInt8] = []
    let content = MessageContent(text: "\(order)")
    let message = EncodedMessage(content, messageId: 4 << 40 | order, order: order, toUser: "bob")
    message.append(to: &encoded, floor: floor)
    let relayed = EncodedMessage(relaying: Array(encoded[16...]).span, from: from, serverTime: 9)
    return try IncomingMessage(reading: Array(relayed.bytes[16...]).span, transport: .udp)
  }

  private func orders(_ inbound: InboundMessages) -> [UInt64] { inbound.takeReady().map(\.order) }

  @Test func aGapHoldsBackWhatFollows() throws {
    let inbound = InboundMessages(roomMessages: 100)
    #expect(inbound.receive(try message(1), now: start) == .taken)
    #expect(inbound.receive(try message(3), now: start) == .taken)
    #expect(orders(inbound) == [1])
    #expect(inbound.receive(try message(2), now: start) == .taken)
    #expect(orders(inbound) == [2, 3])
    #expect(inbound.deadline == nil)
  }

  @Test func aDuplicateIsReceiptedAgainOnlyWhenTheApplicationTookIt() throws {
    let inbound = InboundMessages(roomMessages: 100)
    _ = inbound.receive(try message(1), now: start)
    _ = inbound.receive(try message(3), now: start)
    #expect(orders(inbound) == [1])
    #expect(inbound.receive(try message(1), now: start) == .waiting)
    #expect(inbound.receive(try message(3), now: start) == .waiting)
    inbound.markTaken(from: "alice", device: 4, order: 1)
    #expect(inbound.receive(try message(1), now: start) == .receiptAgain)
    #expect(orders(inbound) == [])
    #expect(inbound.duplicates == 3)
  }

  @Test func aGapIsWaitedForTenSecondsThenPassedOver() throws {
    let inbound = InboundMessages(roomMessages: 100)
    _ = inbound.receive(try message(1), now: start)
    _ = inbound.receive(try message(3), now: start)
    _ = orders(inbound)
    #expect(inbound.deadline == start + .seconds(10))
    inbound.expire(now: start + .milliseconds(9999))
    #expect(orders(inbound) == [])
    inbound.expire(now: start + .seconds(10))
    #expect(orders(inbound) == [3])
    #expect(inbound.receive(try message(2), now: start + .seconds(11)) == .taken)
    let late = inbound.takeReady()
    #expect(late.map(\.order) == [2] && late[0].isLate && inbound.late == 1)
    #expect(inbound.receive(try message(4), now: start + .seconds(11)) == .taken)
    let next = inbound.takeReady()
    #expect(next.map(\.order) == [4] && !next[0].isLate)
  }

  /// While messages are lost all the time something is always held; that is no gap of 10 s.
  @Test func eachGapHasItsOwnClock() throws {
    let inbound = InboundMessages(roomMessages: 100)
    _ = inbound.receive(try message(2), now: start)
    _ = inbound.receive(try message(4), now: start + .seconds(9))
    _ = inbound.receive(try message(1), now: start + .milliseconds(9500))
    #expect(orders(inbound) == [1, 2])
    #expect(inbound.deadline == start + .seconds(19))
    inbound.expire(now: start + .seconds(10))
    #expect(orders(inbound) == [])
    _ = inbound.receive(try message(3), now: start + .seconds(10))
    #expect(orders(inbound) == [3, 4])
  }

  @Test func theClockStandsStillWhileDisconnected() throws {
    let inbound = InboundMessages(roomMessages: 100)
    _ = inbound.receive(try message(2), now: start)
    inbound.standStill(now: start + .seconds(4))
    #expect(inbound.deadline == nil)
    inbound.expire(now: start + .seconds(100))
    #expect(orders(inbound) == [])
    inbound.goOn(now: start + .seconds(104))
    #expect(inbound.deadline == start + .seconds(110))
  }

  /// A machine that was suspended: the missing message came meanwhile, and is read after the timer went off.
  @Test func aProcessThatStoodStillReadsBeforeItPassesOver() throws {
    let inbound = InboundMessages(roomMessages: 100)
    _ = inbound.receive(try message(1), now: start)
    _ = inbound.receive(try message(3), now: start)
    _ = inbound.receive(try message(2, from: "carol"), now: start + .seconds(3))
    #expect(orders(inbound) == [1])
    let woken = start + .seconds(12)
    inbound.expire(now: woken)
    #expect(orders(inbound) == [])
    #expect(inbound.receive(try message(2), now: woken) == .taken)
    #expect(orders(inbound) == [2, 3])
    // The other gap has its whole time, and that is not put off for ever.
    #expect(inbound.deadline == start + .seconds(13))
    inbound.expire(now: start + .seconds(13))
    #expect(orders(inbound) == [2] && inbound.deadline == nil)
  }

  @Test func theFloorPassesOverWhatIsFinished() throws {
    let inbound = InboundMessages(roomMessages: 100)
    _ = inbound.receive(try message(1), now: start)
    _ = inbound.receive(try message(4), now: start)
    #expect(orders(inbound) == [1])
    _ = inbound.receive(try message(6, floor: 4), now: start)
    #expect(orders(inbound) == [4])
    _ = inbound.receive(try message(7, floor: 6), now: start)
    #expect(orders(inbound) == [6, 7])
    #expect(inbound.deadline == nil)
  }

  /// Else the clock of a gap that is none any more would be due at every turn, for ever.
  @Test func theFloorOfARefusedMessageClosesAGap() throws {
    let inbound = InboundMessages(roomMessages: 100)
    _ = inbound.receive(try message(1), now: start)
    _ = inbound.receive(try message(3), now: start)
    #expect(inbound.receive(try message(20_000, floor: 4), now: start) == .refused)
    #expect(orders(inbound) == [1, 3])
    #expect(inbound.deadline == nil)
  }

  @Test func aConversationIsMetAtItsFloor() throws {
    let inbound = InboundMessages(roomMessages: 100)
    _ = inbound.receive(try message(50, floor: 50), now: start)
    #expect(orders(inbound) == [50])
    #expect(inbound.receive(try message(49, floor: 49), now: start) != .taken)
  }

  @Test func conversationsDoNotWaitForOneAnother() throws {
    let inbound = InboundMessages(roomMessages: 100)
    _ = inbound.receive(try message(2), now: start)
    _ = inbound.receive(try message(1, from: "carol"), now: start)
    #expect(inbound.takeReady().map(\.from) == ["carol"])
  }

  @Test func whatLiesBeyondTheWindowOrTheRoomIsRefused() throws {
    let inbound = InboundMessages(roomMessages: 10)
    #expect(inbound.receive(try message(WireLimits.orderWindow + 1), now: start) == .refused)
    #expect(inbound.receive(try message(WireLimits.orderWindow), now: start) == .taken)
    for order: UInt64 in 1...1043 { #expect(inbound.receive(try message(order), now: start) == .taken) }
    #expect(inbound.receive(try message(1044), now: start) == .refused)
    inbound.markTaken(from: "alice", device: 4, order: 1)
    #expect(inbound.receive(try message(1044), now: start) == .taken)
  }

  @Test func devicesOfAUserAreBoundedAndTheLongestUnusedIdleGoes() throws {
    let inbound = InboundMessages(roomMessages: 100_000)
    for device in 0...UInt64(InboundMessages.devicesPerUser) {
      var next = try message(1)
      next.device = UInt32(device + 1)
      _ = inbound.receive(next, now: start + .seconds(Int64(device)))
      inbound.markTaken(from: "alice", device: next.device, order: 1)
    }
    #expect(inbound.evictedMaps == 1)
  }

  /// Any order of arrival, with copies and rising floors: each message once, in order, and the gap clock always runs
  /// while something is held.
  @Test func arrivalsInAnyOrder() throws {
    for seed: UInt64 in 1...100 {
      var random = Seeded(seed)
      let sender = SenderDevice(user: "alice", device: 4)
      let conversation = InboundConversation(sender: sender, floor: 1, now: start)
      var shown: [IncomingMessage] = []
      var arrivals = (1...UInt64(80)).flatMap { order in [order, order] }.shuffled(using: &random)
      arrivals += Array(1...80)
      for (step, order) in arrivals.enumerated() {
        _ = conversation.receive(try message(order), now: start + .milliseconds(Int64(step)), ready: &shown)
        #expect((conversation.heldCount > 0) == (conversation.gapSince != nil))
      }
      #expect(shown.map(\.order) == Array(1...80) && !shown.contains(where: \.isLate))
    }
  }
}
