import SimpSupport
import Testing

@testable import SimpCore
@testable import SimpServer

/// What meets a limit of a session, or is dropped by its channels, is counted by the server.
@Suite struct ServerCounterTests {
  private static func rig(_ change: (inout ServerLimits) -> Void = { _ in }) -> RequestRig {
    var limits = ServerLimits()
    change(&limits)
    return RequestRig(limits: limits)
  }

  private static func value(_ name: String, _ rig: RequestRig) -> UInt64? { rig.registry.values["simp_\(name)_total"] }

  private static func send(_ order: UInt64, to user: String, text: String = "m", from client: RigClient) {
    let message = EncodedMessage(
      MessageContent(text: text), messageId: 1 << 40 | order, order: order, toUser: user)
    var bytes: [UInt8] = []
    message.append(to: &bytes, floor: 1)
    client.entry.session.receive(stream: bytes.span, now: client.rig.now)
  }

  @Test func aLoginThatTakesTooLongAndASessionThatIsSilentAreToldApart() {
    let rig = Self.rig { $0.session.loginTime = .seconds(2) }
    let stranger = rig.ports[0].board.begin(now: rig.now)
    let alice = rig.connect("alice")
    rig.pass(.seconds(1))
    #expect(!stranger.session.isEnded && Self.value("logins_timed_out", rig) == 0)
    rig.pass(.seconds(1))
    #expect(stranger.session.isEnded && !alice.entry.session.isEnded)
    #expect(Self.value("logins_timed_out", rig) == 1 && Self.value("sessions_silent", rig) == 0)
    rig.pass(WireTimes.idleTimeout)
    #expect(alice.entry.session.isEnded)
    #expect(Self.value("logins_timed_out", rig) == 1 && Self.value("sessions_silent", rig) == 1)
  }

  @Test(arguments: [0, 1]) func whatOneRecipientCannotBeHeldIsCounted(reactor: Int) {
    let rig = Self.rig { $0.session.pendingMessages = 2 }
    _ = rig.connect("bob", reactor: reactor)
    let alice = rig.connect("alice")
    for order: UInt64 in 1...5 { Self.send(order, to: "bob", from: alice) }
    #expect(Self.value("messages_relayed", rig) == 2)
    // One of them was asked for room; what comes after it in its conversation waits for it.
    #expect(Self.value("messages_pending_full", rig) ?? 0 >= 1 && Self.value("messages_held_full", rig) == 0)
  }

  @Test func aMessageBeyondItsSizeIsCounted() {
    let rig = Self.rig { $0.session.messageBytes = 1000 }
    _ = rig.connect("bob")
    let alice = rig.connect("alice")
    Self.send(1, to: "bob", text: String(repeating: "x", count: 1000), from: alice)
    Self.send(2, to: "bob", text: String(repeating: "x", count: 800), from: alice)
    rig.ports[0].board.count(alice.entry)
    #expect(Self.value("messages_too_large", rig) == 1 && Self.value("messages_relayed", rig) == 1)
  }

  /// Of every session once, however often it is asked, and the last of it when it ends.
  @Test func whatChannelsCountIsSummedUp() {
    let rig = Self.rig()
    let clients = [rig.connect("alice"), rig.connect("bob", reactor: 1)]
    let names = [
      "datagrams_received", "datagrams_sent", "datagrams_replayed", "datagrams_forged", "datagrams_untried",
      "datagrams_out_of_phase", "datagrams_malformed", "receipts_false", "key_changes", "key_changes_of_clients",
      "key_changes_too_soon",
    ]
    func note(_ client: RigClient, _ times: UInt64) {
      let channel = client.entry.session.channel
      channel.counters.datagramsReceived += 1 * times
      channel.counters.datagramsSent += 2 * times
      channel.counters.datagramsReplayed += 3 * times
      channel.counters.datagramsForged += 4 * times
      channel.counters.datagramsUntried += 5 * times
      channel.counters.datagramsOutOfPhase += 6 * times
      channel.counters.datagramsMalformed += 7 * times
      channel.counters.receiptsFalse += 8 * times
      channel.counters.keyChanges += 9 * times
      channel.counters.keyChangesOfPeer += 10 * times
      channel.counters.keyChangesTooSoon += 11 * times
    }
    note(clients[0], 1)
    for _ in 0..<3 { rig.ports[0].board.count(clients[0].entry) }
    #expect(names.map { Self.value($0, rig) } == (1...11).map { $0 })
    note(clients[0], 10)
    note(clients[1], 100)
    for client in clients { client.entry.session.end(Refusal(.shuttingDown, "over"), now: rig.now) }
    #expect(names.map { Self.value($0, rig) } == (1...11).map { 111 * $0 })
  }
}
