import SimpCore
import SimpIO
import Testing

@testable import SimpConnection

/// What becomes of messages that are stored.
@Suite(.timeLimit(.minutes(5)))
struct SDKFollowingTests {
  @Test func aReceiptGoesOnBehindStored() async throws {
    try await withSDKServer { server in
      let alice = try server.connection("alice")
      try await alice.connected()
      let receipts = try (1...20).map { try alice.post("\($0)", to: "bob") }
      for receipt in receipts { try await receipt.reached(.stored) }
      #expect(receipts.allSatisfy { $0.state == .stored && $0.timeline.delivered == nil })
      let bob = try server.connection("bob")
      try await bob.connected()
      #expect(try await bob.take(20).map(\.text) == (1...20).map { "\($0)" })
      for receipt in receipts {
        try await receipt.reached(.delivered)
        #expect(receipt.state == .delivered)
        let timeline = receipt.timeline
        let (stored, delivered) = (try #require(timeline.stored), try #require(timeline.delivered))
        #expect(stored <= delivered && timeline.steps.map(\.name).suffix(2) == ["stored", "delivered"])
        #expect(try await receipt.delivered.elapsed == delivered)
      }
      // The outbox was done with them before.
      #expect(alice.statistics.stored == 20 && alice.statistics.delivered == 0)
      await alice.close()
      await bob.close()
    }
  }

  @Test func whoWaitsIsToldThatNothingMoreComes() async throws {
    try await withSDKServer { server in
      let alice = try server.connection("alice")
      try await alice.connected()
      let receipt = try await alice.send("later", to: "bob")
      try await receipt.reached(.stored)
      let waiting = Task { await code { try await receipt.reached(.delivered) } }
      await alice.close()
      #expect(await waiting.value == .stored)
      #expect(receipt.state == .stored)
      try await receipt.reached(.stored)
    }
  }

  private func stored() -> SIMPReceipt {
    let receipt = SIMPReceipt(lock: Locked(false))
    let delivery = SIMPDelivery(elapsed: .zero, transport: .tcp, attempts: 1)
    receipt.finish(.stored, outcome: .success(delivery), isLast: false, sent: nil, after: .zero)
    return receipt
  }

  @Test func theOldestGoWhenThereIsNoRoom() async throws {
    var followed = FollowedReceipts(limit: 16)
    let receipts = (0..<20).map { _ in stored() }
    for (index, receipt) in receipts.enumerated() {
      let key = MessageKey(conversation: UInt32(index % 2), order: UInt64(index + 1))
      followed.insert(receipt, posted: Instant(nanoseconds: 0), key: key)
    }
    // An eighth at a time: four of the first have gone, and are told so.
    for receipt in receipts.prefix(4) {
      #expect(await code { try await receipt.reached(.delivered) } == .stored)
    }
    for conversation: UInt32 in 0...1 {
      followed.follow(.delivered, conversation: conversation, orders: [1...1000], now: Instant(nanoseconds: 5))
    }
    #expect(receipts.map(\.state) == (0..<20).map { $0 < 4 ? .stored : .delivered })
  }

  @Test func droppedReceiptsMakeRoomBeforeOthersGo() throws {
    var followed = FollowedReceipts(limit: 16)
    let held = stored()
    followed.insert(held, posted: Instant(nanoseconds: 0), key: MessageKey(conversation: 0, order: 1))
    for order: UInt64 in 2...1000 {
      followed.insert(stored(), posted: Instant(nanoseconds: 0), key: MessageKey(conversation: 0, order: order))
    }
    followed.follow(.delivered, conversation: 0, orders: [1...1], now: Instant(nanoseconds: 5))
    #expect(held.state == .delivered)
  }

  @Test func nothingIsTakenBack() {
    let receipt = stored()
    receipt.follow(.delivered, after: .seconds(1))
    receipt.follow(.expired, after: .seconds(2))
    #expect(receipt.state == .delivered && receipt.timeline.delivered == .seconds(1))
    receipt.follow(.read, after: .seconds(3))
    receipt.follow(.delivered, after: .seconds(4))
    let timeline = receipt.timeline
    #expect(receipt.state == .read && timeline.stored == .zero && timeline.delivered == .seconds(1))
    #expect(timeline.read == .seconds(3))
  }
}
