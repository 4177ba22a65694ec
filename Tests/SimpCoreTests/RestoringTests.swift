import Testing

@testable import SimpCore

/// What a client's core makes of what a store kept.
@Suite struct RestoringTests {
  private let now = Instant(nanoseconds: 1_000_000_000)

  private func contents() -> OutboxContents {
    var contents = OutboxContents(id: 7)
    contents.deviceNumber = 3
    contents.counter = 9
    contents.nextOrders = [("bob", 6), ("carol", 3)]
    contents.messages = [
      .init(counter: 4, user: "bob", order: 3, content: MessageContent(text: "b3")),
      .init(counter: 9, user: "bob", order: 5, content: MessageContent(text: "b5")),
    ]
    return contents
  }

  @Test func anOutboxGoesOnWhereItWas() throws {
    let (outbox, keys) = Outbox.restore(contents(), limitMessages: 10, limitBytes: 1 << 20, now: now)
    #expect(outbox.id == 7 && outbox.deviceNumber == 3 && outbox.count == 2)
    #expect(keys.map(\.order) == [3, 5] && keys.map { outbox.messageId(of: $0) } == [3 << 40 | 4, 3 << 40 | 9])
    #expect(outbox.floor(of: keys[0]) == 3)
    // All of it by TCP, lowest first, before anything new; what follows keeps counting.
    let new = try outbox.append(MessageContent(text: "b6"), to: "bob", now: now)
    let other = try outbox.append(MessageContent(text: "c3"), to: "carol", now: now)
    #expect(new.key.order == 6 && new.counter == 10 && other.key.order == 3 && other.counter == 11)
    #expect(outbox.floor(of: other.key) == 3)
    var offered: [(UInt64, Bool)] = []
    while let offer = outbox.nextOffer() { offered.append((offer.key.order, offer.byTCP)) }
    #expect(offered.filter(\.1).map(\.0) == [3, 5])
    #expect(offered.filter { !$0.1 }.map(\.0) == [3])
    for key in keys { _ = outbox.finish(key) }
    #expect(outbox.nextOffer()?.key == new.key)
    #expect(outbox.floor(of: new.key) == 6)
  }

  private func message(_ order: UInt64, floor: UInt64 = 1, size: Int = 0) throws -> IncomingMessage {
    var encoded: [UInt8] = []
    let content = MessageContent(text: String(repeating: "x", count: size))
    EncodedMessage(content, messageId: 4 << 40 | order, order: order, toUser: "bob").append(to: &encoded, floor: floor)
    let relayed = EncodedMessage(relaying: Array(encoded[16...]).span, from: "alice", serverTime: 9)
    return try IncomingMessage(reading: Array(relayed.bytes[16...]).span, transport: .udp)
  }

  /// The map that a store makes of what was shown tells the same apart as the core's own.
  @Test func aRestoredMapKnowsWhatWasShown() throws {
    var random = SystemRandomNumberGenerator()
    for _ in 0..<50 {
      let inbound = InboundMessages(roomMessages: 10_000)
      var kept = OrderMap(base: 1)
      var shown: Set<UInt64> = []
      var time = now
      for _ in 0..<200 {
        let order = UInt64.random(in: 1...120, using: &random)
        let floor = UInt64.random(in: 1...max(1, order / 2), using: &random)
        _ = inbound.receive(try message(order, floor: floor), now: time)
        time = time + .milliseconds(300)
        if Int.random(in: 0..<20, using: &random) == 0 { inbound.expire(now: time) }
        for message in inbound.takeReady() {
          kept.advance(to: message.floor)
          #expect(!kept.contains(message.order) && message.order - kept.base < WireLimits.orderWindow)
          kept.insert(message.order)
          shown.insert(message.order)
        }
      }
      // After a restart: what was shown is a duplicate, to be receipted again; what was only held is new.
      let restarted = InboundMessages(roomMessages: 10_000)
      restarted.restore(from: "alice", device: 4, map: kept, now: time)
      for order in shown { #expect(restarted.receive(try message(order), now: time) == .receiptAgain) }
      for order in 121...UInt64(130) { _ = restarted.receive(try message(order), now: time) }
      #expect(restarted.takeReady().map(\.order).last == (shown.max() == 120 ? 130 : nil))
    }
  }

  @Test func whatIsMissingBelowComesLate() throws {
    var map = OrderMap(base: 1)
    for order: UInt64 in [1, 2, 4, 5] { map.insert(order) }
    let inbound = InboundMessages(roomMessages: 100)
    inbound.restore(from: "alice", device: 4, map: map, now: now)
    #expect(inbound.receive(try message(6), now: now) == .taken)
    #expect(inbound.receive(try message(3), now: now) == .taken)
    #expect(inbound.receive(try message(8), now: now) == .taken)
    let ready = inbound.takeReady()
    #expect(ready.map(\.order) == [6, 3] && ready.map(\.isLate) == [false, true])
    #expect(inbound.deadline == now + WireTimes.gap)
  }

  @Test func aMapOfTooManyWordsIsNone() {
    #expect(OrderMap(base: 1, words: [UInt64](repeating: 2, count: 258)) == nil)
    #expect(OrderMap(base: 1, words: [3, 0])?.base == 3)
  }

  @Test func deliveredIsNotSaidBeforeTheCommit() throws {
    var intake = StoredIntake(roomMessages: 2, roomBytes: 1 << 20)
    #expect(intake.takeDelivered().isEmpty)
    intake.committed(try message(1))
    #expect(intake.takeDelivered() == [.init(from: "alice", device: 4, order: 1)])
    #expect(intake.takeDelivered().isEmpty)
  }

  @Test func deliveredWaitsForASlowApplication() throws {
    var intake = StoredIntake(roomMessages: 2, roomBytes: 1000)
    intake.restored(try message(1))
    for order in 2...UInt64(5) { intake.committed(try message(order)) }
    #expect(intake.takeDelivered().map(\.order) == [2] && intake.unacknowledged == 5)
    intake.acknowledged(bytes: 64)
    #expect(intake.takeDelivered().map(\.order) == [3])
    // By bytes as well; one that is larger than all of the room passes alone.
    intake.committed(try message(6, size: 5000))
    for _ in 0..<3 { intake.acknowledged(bytes: 64) }
    #expect(intake.takeDelivered().map(\.order) == [4, 5])
    intake.acknowledged(bytes: 64)
    #expect(intake.takeDelivered().map(\.order) == [6])
    intake.acknowledged(bytes: 5064)
    #expect(intake.unacknowledged == 0)
  }
}
