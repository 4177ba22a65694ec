import SimpSupport
import Testing

@testable import SimpCore
@testable import SimpServer

/// A copy of a message that its sender was told to be finished goes no further, for a process that began after that
/// would be shown it.
@Suite struct FinishedOrdersTests {
  @Test func whatIsNeitherDeliveredNorBelowTheFloorMayBeNew() {
    var finished = FinishedOrders()
    #expect(finished.knows(order: 5, floor: 5, to: "bob") == nil)
    #expect(finished.knows(order: 7, floor: 5, to: "bob") == nil)
    finished.insert(order: 7, to: "bob")
    #expect(finished.knows(order: 7, floor: 5, to: "bob") == .delivered)
    #expect(finished.knows(order: 5, floor: 5, to: "bob") == nil)
    #expect(finished.knows(order: 6, floor: 5, to: "bob") == nil)
    // Of another conversation nothing is said.
    #expect(finished.knows(order: 7, floor: 5, to: "carol") == nil)
    #expect(finished.knows(order: 9, floor: 9, to: "bob") == nil)
    for order: UInt64 in 5...8 { #expect(finished.knows(order: order, floor: 5, to: "bob") == .belowFloor) }
  }

  /// What came before the floor of a later message is no outcome of ours, and is not told as one.
  @Test func deliveredInSequenceStaysKnown() {
    var finished = FinishedOrders()
    _ = finished.knows(order: 1, floor: 1, to: "bob")
    for order: UInt64 in 1...10_000 { finished.insert(order: order, to: "bob") }
    for order: UInt64 in [1, 2, 9999, 10_000] {
      #expect(finished.knows(order: order, floor: 1, to: "bob") == .delivered)
    }
    #expect(finished.knows(order: 10_001, floor: 1, to: "bob") == nil)
  }

  @Test func aConversationKeepsItsWidthAndASessionItsNumberOfThem() {
    var finished = FinishedOrders()
    _ = finished.knows(order: 1, floor: 1, to: "bob")
    finished.insert(order: FinishedOrders.width, to: "bob")
    finished.insert(order: FinishedOrders.width + 1, to: "bob")
    finished.insert(order: .max, to: "bob")
    #expect(finished.knows(order: FinishedOrders.width, floor: 1, to: "bob") == .delivered)
    #expect(finished.knows(order: FinishedOrders.width + 1, floor: 1, to: "bob") == nil)
    // One that nothing came of is not begun by an outcome.
    finished.insert(order: 1, to: "carol")
    #expect(finished.knows(order: 1, floor: 1, to: "carol") == nil)
    for number in 0..<2 * FinishedOrders.maximumConversations {
      #expect(finished.count <= FinishedOrders.maximumConversations)
      _ = finished.knows(order: 1, floor: 1, to: "user\(number)")
    }
    #expect(finished.count == FinishedOrders.maximumConversations)
  }

  private static func send(_ order: UInt64, floor: UInt64 = 1, from client: RigClient) {
    let message = EncodedMessage(MessageContent(text: "m"), messageId: 1 << 40 | order, order: order, toUser: "bob")
    var bytes: [UInt8] = []
    message.append(to: &bytes, floor: floor)
    client.entry.session.receive(stream: bytes.span, now: client.rig.now)
  }

  /// What a client is told of messages it sent, since it was last asked.
  private static func outcomes(_ client: RigClient) -> [MessageState] {
    client.rig.pass(.milliseconds(200))
    return client.packets().filter { $0.header.command == .receipt }
      .compactMap { try? Receipt(reading: $0.payload.span) }.flatMap(\.outcomes).map(\.state)
  }

  /// A copy comes when the recipient is another process, on the sender's own reactor or not.
  @Test(arguments: [0, 1]) func aProcessThatBeginsLaterIsNotShownACopy(reactor: Int) {
    let rig = RequestRig()
    let bob = rig.connect("bob", reactor: reactor)
    let alice = rig.connect("alice")
    Self.send(1, from: alice)
    #expect(bob.entry.session.pendingMessages == 1 && Self.outcomes(alice) == [.accepted])
    let delivered = Receipt(outcomes: [Outcome(.delivered, user: "alice", device: 1, orders: [1...1])])
    bob.send(.receipt, delivered.append)
    #expect(Self.outcomes(alice) == [.delivered])

    let next = rig.connect("bob", reactor: reactor)
    #expect(bob.entry.session.isEnded)
    Self.send(1, from: alice)
    #expect(next.entry.session.pendingMessages == 0)
    #expect(Self.outcomes(alice) == [.delivered], "told again")
    #expect(rig.registry.values["simp_message_copies_dropped_total"] == 1)
    // The next message passes the floor, and then nothing more is to be told.
    Self.send(2, floor: 2, from: alice)
    #expect(next.entry.session.pendingMessages == 1 && Self.outcomes(alice) == [.accepted])
    Self.send(1, from: alice)
    #expect(next.entry.session.pendingMessages == 1 && Self.outcomes(alice).isEmpty)
  }

  /// What is held is not to wait for a lower order that was answered LATER.
  @Test func aCopyOfAHeldMessageIsHeldWhateverItsConversationWaitsFor() {
    var limits = ServerLimits()
    limits.messagesPerSecond = 1
    let rig = RequestRig(limits: limits)
    let bob = rig.connect("bob")
    let alice = rig.connect("alice")
    Self.send(2, from: alice)
    Self.send(3, from: alice)
    #expect(Self.outcomes(alice) == [.accepted])
    Self.send(1, from: alice)
    #expect(Self.outcomes(alice) == [.later], "the rate of two seconds is used up")
    rig.pass(.seconds(2))
    Self.send(2, from: alice)
    #expect(Self.outcomes(alice) == [.accepted])
    Self.send(4, from: alice)
    #expect(Self.outcomes(alice) == [.later])
    #expect(bob.entry.session.pendingMessages == 2)
  }
}
