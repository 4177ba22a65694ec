import Testing

@testable import SimpCore

@Suite struct MessageWindowTests {
  private let now = Instant(nanoseconds: 1_000_000_000)
  private let key = MessageKey(conversation: 1, order: 5)

  private func message(_ bytes: Int = 100) -> EncodedMessage {
    EncodedMessage(
      MessageContent(text: String(repeating: "x", count: bytes)), messageId: 1 << 40 | 1, order: 5, toUser: "bob")
  }

  private func flying(datagram: UInt64 = 0) -> MessageWindow {
    var window = MessageWindow()
    window.insert(key, message(), byTCP: false, nextDatagram: datagram)
    let result1 = window.nextForUDP(room: 1000)
    #expect(result1 == key)
    let result2 = window.sendByUDP(key, datagram: datagram, now: now)
    #expect(result2?.isFirst == true)
    return window
  }

  @Test func keysNameConversationAndOrder() {
    let key = MessageKey(conversation: 0xFF_FFFF, order: 1 << 40 - 1)
    #expect(key.conversation == 0xFF_FFFF && key.order == 1 << 40 - 1)
  }

  /// It was answered LATER, and comes back when there is room: the receipt of a copy that flew before is of no copy now.
  @Test func aReceiptOfAFormerCopySaysNothingAboutWhatCameBack() {
    var window = flying(datagram: 3)
    _ = window.remove(key)
    window.insert(key, message(), byTCP: false, nextDatagram: 8)
    _ = window.nextForUDP(room: 1000)
    _ = window.sendByUDP(key, datagram: 8, now: now)
    let former = window.accept(key, datagram: 3)
    #expect(!former && window.entries[key]?.state == .flying)
    window.markAnswered(key, datagram: 3)
    #expect(window.entries[key]?.state == .flying)
    let present = window.accept(key, datagram: 8)
    #expect(present && window.entries[key]?.state == .accepted)
  }

  @Test func whatDoesNotFitADatagramGoesByTCP() {
    var window = MessageWindow()
    window.insert(key, message(2000), byTCP: false, nextDatagram: 0)
    #expect(!window.hasUDPWork && window.hasTCPWork)
    let result3 = window.sendByTCP(now: now)
    #expect(result3?.key == key)
    let result4 = window.sendByTCP(now: now)
    #expect(result4 == nil)
  }

  /// Else the receiver would have it long before what waits for room in flight, and give that up as a gap.
  @Test func whatGoesByTCPForItsSizeOvertakesNothingThatWaits() {
    var window = MessageWindow()
    let keys = (5...8).map { MessageKey(conversation: 1, order: $0) }
    for (key, bytes) in zip(keys, [100, 2000, 3000, 100]) {
      window.insert(key, message(bytes), byTCP: false, nextDatagram: 0)
    }
    let before = window.sendByTCP(now: now)
    #expect(before == nil)
    let first = window.nextForUDP(room: 1000)
    #expect(first == keys[0])
    _ = window.sendByUDP(keys[0], datagram: 0, now: now)
    // Its turn has come, and that of what follows.
    let next = window.nextForUDP(room: 50)
    #expect(next == nil && window.hasTCPWork)
    for key in keys[1...2] {
      let large = window.sendByTCP(now: now)
      #expect(large?.key == key)
    }
    let last = window.nextForUDP(room: 1000)
    #expect(last == keys[3])
  }

  @Test func whatDoesNotFitTheRestOfADatagramWaits() {
    var window = MessageWindow()
    window.insert(key, message(), byTCP: false, nextDatagram: 0)
    let result5 = window.nextForUDP(room: 50)
    #expect(result5 == nil)
    let result6 = window.nextForUDP(room: 1000)
    #expect(result6 == key)
  }

  @Test func bytesAreCountedWithAndWithoutWhatIsSentAgain() {
    var window = flying()
    let size = UInt64(message().bytes.count)
    #expect(window.bytesSent == size && window.bytesNeeded == size)
    window.markLost(key, datagram: 0)
    _ = window.sendByUDP(key, datagram: 1, now: now)
    _ = window.escalate(key)
    _ = window.sendByTCP(now: now)
    #expect(window.bytesSent == 3 * size && window.bytesNeeded == size)
  }

  @Test func theLostIsSentAgainOnceAndBeforeTheNew() {
    var window = flying()
    let other = MessageKey(conversation: 1, order: 6)
    window.insert(other, message(), byTCP: false, nextDatagram: 1)
    window.markLost(key, datagram: 0)
    window.markLost(key, datagram: 0)
    let result7 = window.nextForUDP(room: 1000)
    #expect(result7 == key)
    let result8 = window.sendByUDP(key, datagram: 1, now: now)
    #expect(result8?.isFirst == false)
    let result9 = window.nextForUDP(room: 1000)
    #expect(result9 == other)
    #expect(window.retransmissions == 1)
  }

  @Test func aLossOfAnEarlierCopyChangesNothing() {
    var window = flying()
    window.markLost(key, datagram: 0)
    _ = window.sendByUDP(key, datagram: 4, now: now)
    window.markLost(key, datagram: 0)
    let result10 = window.nextForUDP(room: 1000)
    #expect(result10 == nil)
  }

  @Test func escalationAddsTCPOnceAndLeavesUDP() {
    var window = flying()
    #expect(window.stale(since: .seconds(3), now: now + .milliseconds(2999)) == [])
    #expect(window.stale(since: .seconds(3), now: now + .seconds(3)) == [key])
    let result11 = window.escalate(key)
    #expect(result11)
    let result12 = window.escalate(key)
    #expect(!result12)
    let result13 = window.sendByTCP(now: now)
    #expect(result13?.key == key)
    #expect(window.entries[key]?.byUDP == true && window.entries[key]?.state == .flying)
  }

  @Test func whatArrivedIsNotEscalated() {
    var window = flying()
    let result14 = window.accept(key, datagram: 0)
    #expect(result14)
    let result15 = window.accept(key, datagram: 0)
    #expect(!result15)
    let result16 = window.escalate(key)
    #expect(!result16 && window.stale(since: .zero, now: now + .seconds(9)) == [])
  }

  @Test func allGoesToTCPWhenThePathIsDown() {
    var window = flying()
    let fresh = MessageKey(conversation: 1, order: 6)
    window.insert(fresh, message(), byTCP: false, nextDatagram: 1)
    let result17 = window.divertToTCP()
    #expect(result17 == 1)
    var sent: Set<MessageKey> = []
    while let (key, _) = window.sendByTCP(now: now) { sent.insert(key) }
    #expect(sent == [key, fresh] && !window.hasUDPWork)
  }

  @Test func whatStallsOnTCPIsHelpedByUDP() {
    var window = MessageWindow()
    window.insert(key, message(), byTCP: true, nextDatagram: 0)
    _ = window.sendByTCP(now: now)
    window.assistByUDP(since: .seconds(1), now: now + .milliseconds(999))
    let result18 = window.nextForUDP(room: 1000)
    #expect(result18 == nil)
    window.assistByUDP(since: .seconds(1), now: now + .seconds(1))
    let result19 = window.nextForUDP(room: 1000)
    #expect(result19 == key)
  }

  /// A message that was finished, or refused for now, may come back under the same key. A receipt of a former copy says
  /// nothing about it: taken for its own, the message would wait for ever.
  @Test(arguments: [false, true]) func aReceiptOfAFormerCopyIsNotItsOwn(isAnswered: Bool) {
    var window = flying(datagram: 3)
    window.remove(key)
    window.insert(key, message(), byTCP: false, nextDatagram: 4)
    _ = window.sendByUDP(key, datagram: 4, now: now)
    let wasAccepted = isAnswered ? false : window.accept(key, datagram: 3)
    if isAnswered { window.markAnswered(key, datagram: 3) }
    #expect(!wasAccepted)
    #expect(window.entries[key]?.state == .flying)
    window.markLost(key, datagram: 4)
    let result20 = window.nextForUDP(room: 1000)
    #expect(result20 == key)
    let result21 = window.accept(key, datagram: 4)
    #expect(result21)
  }

  @Test func anOfferAgainNeedsAnArrival() {
    var window = flying()
    window.offerAgain(key)
    #expect(!window.hasTCPWork)
    _ = window.accept(key, datagram: 0)
    window.offerAgain(key)
    let result22 = window.sendByTCP(now: now)
    #expect(result22?.key == key)
  }

  @Test func bytesAreCounted() {
    var window = flying()
    #expect(window.count == 1 && window.bytes == message().bytes.count)
    window.remove(key)
    let result23 = window.remove(key)
    #expect(window.count == 0 && window.bytes == 0 && result23 == nil)
  }
}
