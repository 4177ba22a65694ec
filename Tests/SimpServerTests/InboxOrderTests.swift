import Testing

@testable import SimpCore
@testable import SimpServer

@Suite struct InboxOrderTests {
  private let start = Instant(nanoseconds: 0)

  private func message(
    _ order: UInt64, floor: UInt64 = 1, to user: String = "bob", end: Interval = InboxOrder.patience,
    isCopy: Bool = false
  ) -> InboxOrder.Entering {
    let content = EncodedMessage(MessageContent(text: "x"), messageId: order, order: order, toUser: user)
    let relay = Relay(
      to: user, from: "alice", device: 1, order: order, floor: floor, messageId: order, message: content,
      origin: SessionAddress(reactor: 0, session: 1))
    return InboxOrder.Entering(relay: relay, session: nil, knownDead: 0, end: start + end, isCopy: isCopy)
  }

  private func orders(_ messages: [InboxOrder.Entering]) -> [UInt64] { messages.map(\.relay.order) }

  @Test func whatOvertookWaitsForWhatIsMissing() {
    var order = InboxOrder()
    for late in [4, 2, 3, 6] as [UInt64] { #expect(order.enter(message(late)) { _ in false }.isEmpty) }
    let going = order.enter(message(1)) { _ in false }
    #expect(orders(going) == [1, 2, 3, 4])
    #expect(going.map(\.follows) == [false, true, true, true])
    // What is missing is in the device's hands, or finished.
    #expect(orders(order.enter(message(8)) { $0 == 5..<8 }) == [6, 8])
    #expect(order.enter(message(11)) { _ in false }.isEmpty)
    #expect(orders(order.enter(message(12, floor: 12)) { _ in false }) == [11, 12])
  }

  /// Only behind one that has no answer yet: that one alone can still fall out.
  @Test func itFollowsWhatIsUnderWay() {
    var order = InboxOrder()
    let first = order.enter(message(1)) { _ in false }
    order.answered(first[0].relay, isIn: true)
    #expect(order.enter(message(2)) { _ in false }.map(\.follows) == [false])
    #expect(order.enter(message(3)) { _ in false }.map(\.follows) == [true])
  }

  @Test func whatFellOutIsWaitedFor() {
    var order = InboxOrder()
    let going = order.enter(message(1)) { _ in false } + order.enter(message(2)) { _ in false }
    order.answered(going[0].relay, isIn: false)
    order.answered(going[1].relay, isIn: false)
    #expect(order.enter(message(2)) { _ in false }.isEmpty)
    #expect(orders(order.enter(message(1)) { _ in false }) == [1, 2])
  }

  @Test func aCopyWaitsForNothing() {
    var order = InboxOrder()
    #expect(orders(order.enter(message(5, isCopy: true)) { _ in false }) == [5])
    #expect(orders(order.enter(message(6)) { _ in false }) == [6])
  }

  @Test func waitsEndInTheirOrder() {
    var order = InboxOrder()
    #expect(order.deadline == .never)
    _ = order.enter(message(5, end: .milliseconds(10))) { _ in false }
    _ = order.enter(message(4, end: .milliseconds(20))) { _ in false }
    _ = order.enter(message(3, to: "carol", end: .milliseconds(30))) { _ in false }
    #expect(order.deadline == start + .milliseconds(10))
    let none = order.expire(now: start + .milliseconds(9))
    let first = order.expire(now: start + .milliseconds(20))
    #expect(none.isEmpty && orders(first) == [5, 4])
    #expect(order.deadline == start + .milliseconds(30))
    _ = order.enter(message(2, floor: 2, to: "carol")) { _ in false }
    let last = order.expire(now: start + .seconds(9))
    #expect(last.isEmpty && order.deadline == .never)
  }

  @Test func conversationsAreBounded() {
    var order = InboxOrder()
    _ = order.enter(message(7, to: "waits")) { _ in false }
    for index in 0..<2 * InboxOrder.maximumConversations {
      for going in order.enter(message(1, to: "user\(index)"), isPending: { _ in false }) {
        order.answered(going.relay, isIn: true)
      }
    }
    #expect(order.conversations == InboxOrder.maximumConversations)
    #expect(orders(order.enter(message(1, floor: 6, to: "waits")) { _ in false }) == [1])
    #expect(orders(order.expire(now: start + .seconds(2))) == [7])
  }
}
