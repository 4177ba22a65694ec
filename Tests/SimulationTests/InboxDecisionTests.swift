import Testing

@testable import SimpCore
@testable import SimpRedis
@testable import SimpServer

/// Who is live, and what goes before what: the server's decisions while its store has not answered yet.
@Suite struct InboxDecisionTests {
  private let rig: RequestRig
  private let store = StoreQuestions()
  private let alice: RigClient
  private let bob: RigClient
  private var board: Switchboard { rig.ports[0].board }

  init() {
    var limits = ServerLimits()
    limits.session.pendingMessages = 2
    rig = RequestRig(limits: limits)
    alice = rig.connect("alice")
    rig.ports[0].questions = store
    bob = rig.connect("bob")
  }

  private func send(_ orders: UInt64...) {
    for order in orders {
      let message = EncodedMessage(
        MessageContent(text: "x"), messageId: 1 << 40 | order, order: order, toUser: "bob")
      var bytes: [UInt8] = []
      message.append(to: &bytes, floor: 1)
      alice.entry.session.receive(stream: bytes.span, now: rig.now)
    }
  }

  private func say(_ state: MessageState, _ orders: ClosedRange<UInt64>...) {
    let outcome = Outcome(state, user: "alice", device: 1, orders: orders)
    bob.send(.receipt, Receipt(outcomes: [outcome]).append)
  }

  private func write(_ state: EndpointState) throws {
    let record = rig.ports[0].endpoints.last { $0.user == "bob" }
    board.endpointWritten(try #require(record), state: state, now: rig.now)
  }

  private var appended: [UInt64] { store.appends.map(\.message.order) }
  private var pending: [UInt64] { bob.entry.session.pending().map(\.key.order) }
  private func id(_ number: UInt64) -> InboxEntry.ID { InboxEntry.ID(milliseconds: 1, sequence: number) }

  private func entry(_ order: UInt64, floor: UInt64 = 1) -> InboxEntry {
    let message = EncodedMessage(MessageContent(text: "x"), messageId: 1 << 40 | order, order: order, toUser: "bob")
    var bytes: [UInt8] = []
    message.append(to: &bytes, floor: floor)
    return InboxEntry(
      id: id(order), from: "alice", device: 1, order: order, expires: 1 << 50, payload: Array(bytes.dropFirst(16)))
  }

  /// Those that wait are not passed by the one for which there is no more room.
  @Test func theirQueueIsFullAsASessionBecomesLive() {
    send(1, 2)
    #expect(appended.isEmpty && pending.isEmpty)
    send(3)
    #expect(appended == [1, 2, 3])
  }

  /// The store said that the inbox is empty while messages were on their way there.
  @Test func liveMeansThatNothingIsOnItsWay() throws {
    send(1, 2, 3)
    try write(.live)
    send(4)
    #expect(appended == [1, 2, 3, 4] && pending.isEmpty)
  }

  /// The first range of an outcome ends all that was pending of its sender.
  @Test func whatFollowsInAnOutcomeEndsNoTurn() throws {
    try write(.catchingUp)
    store.reads.removeFirst().answer([entry(1)])
    #expect(pending == [1])
    say(.delivered, 1...1, 7...7)
    #expect(store.removals.map(\.entries) == [[id(1)]])
  }

  /// What was asked before a message was given back would go on behind it.
  @Test func aReadThatWasUnderWayIsNotTaken() throws {
    try write(.catchingUp)
    store.reads.removeFirst().answer([entry(1), entry(2)])
    say(.delivered, 1...1)
    #expect(pending == [2] && store.reads.map(\.after) == [id(2)])
    say(.later, 2...2)
    store.reads.removeFirst().answer([entry(3)])
    #expect(pending.isEmpty)
    store.removals.removeFirst().answer(true)
    rig.now = rig.now + .seconds(10)
    board.wake(bob.entry)
    #expect(store.reads.map(\.after) == [nil])
  }

  /// Once there was no room for a second, everything goes through the inbox, and first what the device has in hand.
  @Test func aSpillBeginsWithWhatIsInHand() throws {
    try write(.live)
    send(1, 2, 3)
    #expect(pending == [1, 2] && appended.isEmpty)
    rig.now = rig.now + .seconds(2)
    send(3)
    #expect(appended == [1, 2, 3])
    #expect(store.appends.map(\.message.follows) == [false, true, true])
  }

  @Test(arguments: [true, false]) func aCopyGoesAgainWhenItsMessageIsDelivered(endsFirst: Bool) throws {
    try write(.live)
    send(1, 2)
    rig.now = rig.now + .seconds(2)
    send(3)
    rig.now = rig.now + .seconds(2)
    send(3)
    try #require(appended == [1, 2, 3])
    // One before the store has the copy, one behind it.
    say(.delivered, 1...1)
    if endsFirst { bob.entry.session.end(Refusal(.timedOut, "gone"), now: rig.now) }
    for (number, append) in store.appends.enumerated() {
      append.answer(.stored(id(UInt64(number)), toStranger: false))
    }
    #expect(store.removals.map(\.entries) == [[id(0)]])
    guard !endsFirst else { return }
    store.removals.removeFirst().answer(true)
    say(.delivered, 2...2)
    #expect(store.removals.map(\.entries) == [[id(1)]])
  }

  /// A store that is there and takes no endpoints, for whatever reason: nothing waits for it in the dark.
  @Test func whatWaitsForAnEndpointThatIsRefusedGoesBack() throws {
    send(1)
    let record = try #require(rig.ports[0].endpoints.last)
    board.endpointRefused(record, now: rig.now)
    #expect(appended == [1] && store.reads.count == 1)
    store.appends.removeFirst().answer(nil)
    #expect(alice.entry.unfinished.messages == 0)
    // It was read to its end, and the endpoint is refused again.
    store.reads.removeFirst().answer([])
    send(1)
    #expect(bob.entry.inbox.phase == .levelling && bob.entry.inbox.waiting.count == 1)
    board.endpointRefused(record, now: rig.now)
    #expect(bob.entry.inbox.waiting.isEmpty && alice.entry.unfinished.messages == 0)
  }

  @Test func whereNothingIsKeptItIsLive() throws {
    store.state = .off
    send(1)
    board.endpointRefused(try #require(rig.ports[0].endpoints.last), now: rig.now)
    #expect(pending == [1])
  }

  /// A sender that comes back while its message waits is told there.
  @Test func whatWaitsIsReportedWhereItsSenderIs() throws {
    send(1)
    let again = rig.connect("alice")
    let message = EncodedMessage(MessageContent(text: "x"), messageId: 1 << 40 | 1, order: 1, toUser: "bob")
    var bytes: [UInt8] = []
    message.append(to: &bytes, floor: 1)
    again.entry.session.receive(stream: bytes.span, now: rig.now)
    try write(.live)
    #expect(pending == [1])
    #expect(bob.entry.senders.values.map(\.origin) == [SessionAddress(reactor: 0, session: again.entry.session.id)])
  }
}
