import Testing

@testable import SimpCore
@testable import SimpServer

/// What a recipient's session has room for: the server's decisions.
@Suite struct RoomTests {
  /// The room is full of messages that cannot be shown before the one that comes now: it would never come free.
  @Test func whatFillsAGapFindsRoom() throws {
    var limits = ServerLimits()
    limits.session.pendingMessages = 4
    let rig = RequestRig(limits: limits)
    let (alice, bob) = (rig.connect("alice"), rig.connect("bob"))
    let reply = try #require(alice.packets().first).payload
    let device = try LoginReply(reading: reply.span).deviceNumber
    func send(order: UInt64) {
      let message = EncodedMessage(
        MessageContent(text: "x"), messageId: UInt64(device) << 40 | order, order: order, toUser: "bob")
      var bytes: [UInt8] = []
      message.append(to: &bytes, floor: 1)
      alice.entry.session.receive(stream: bytes.span, now: rig.now)
    }
    func orders() -> [UInt64] { bob.entry.session.pending().map(\.key.order) }
    for order: UInt64 in 3...7 { send(order: order) }
    #expect(orders() == [3, 4, 5, 6])
    send(order: 2)
    #expect(orders() == [2, 3, 4, 5, 6])
  }
}
