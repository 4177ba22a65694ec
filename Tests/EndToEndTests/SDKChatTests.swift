import Testing

@testable import SimpConnection

@Suite(.timeLimit(.minutes(5)))
struct SDKChatTests {
  @Test func twoPeopleChatByUDP() async throws {
    try await withSDKServer { server in
      try await withPair(server) { alice, bob in
        await alice.wait { $0.isPathUp }
        await bob.wait { $0.isPathUp }
        let receipt = try await alice.send("hello", to: "bob")
        #expect(receipt.state != .queued && receipt.state != .later)
        let hello = try #require(try await bob.take(1).first)
        #expect(hello.from == "alice" && hello.text == "hello" && hello.transport == .udp)
        #expect(hello.id == receipt.id && hello.order == 1 && !hello.isLate)
        let delivery = try await receipt.delivered
        // On a machine that does much besides, copies may have followed by both ways.
        #expect(delivery.attempts >= 1 && delivery.elapsed > .zero)
        #expect(receipt.state == .delivered)

        try await bob.send(SIMPContent(text: "hi", custom: [0, 255, 7]), to: "alice")
        let hi = try #require(try await alice.take(1).first)
        #expect(hi.from == "bob" && hi.text == "hi" && hi.content.custom == [0, 255, 7])

        #expect(bob.statistics.receivedByUDP == 1)
        #expect(alice.statistics.sentByUDP >= 1)
        #expect(alice.statistics.path == .up)
      }
    }
  }

  @Test func aReceiptTellsWhatHappenedToItsMessageAndWhen() async throws {
    try await withSDKServer(keepsInboxes: false) { server in
      let alice = try server.connection("alice")
      try await alice.connected()
      let receipt = try await alice.send("are you there?", to: "bob")
      #expect(receipt.state == .later)
      let refused = receipt.timeline
      #expect(refused.later != nil && refused.accepted == nil && refused.delivered == nil)
      #expect(refused.steps.map(\.name) == ["sent", "later"])

      let bob = try server.connection("bob")
      try await bob.connected()
      _ = try await bob.take(1)
      let delivery = try await receipt.delivered
      let timeline = receipt.timeline
      let (sent, later) = (try #require(timeline.sent), try #require(timeline.later))
      let delivered = try #require(timeline.delivered)
      #expect(Duration.zero <= sent && sent <= later && later <= delivered && delivered == delivery.elapsed)
      #expect(refused.later == later && refused.sent == sent, "the first time stays")
      if let accepted = timeline.accepted { #expect(later <= accepted && accepted <= delivered) }
      #expect(timeline.steps.first?.name == "sent" && timeline.steps.last?.name == "delivered")
      // Once when bob was not there, once when he was.
      #expect(delivery.attempts >= 2)
      #expect(timeline.stored == nil && timeline.read == nil && timeline.failed == nil)
      await alice.close()
      await bob.close()
    }
  }

  @Test func statesTellWhatHappens() async throws {
    try await withSDKServer { server in
      let alice = try server.connection("alice")
      let states = alice.states
      alice.start()
      let seen = await alice.wait(for: states) { $0.isPathUp }
      #expect(seen.first == .connecting)
      // On a busy machine an attempt may be told to come back.
      let last = seen.drop { !$0.isConnected }
      guard last.count == 2, case .connected(let session)? = last.first, case .pathUp(let address, _)? = last.last
      else {
        Issue.record("unexpected states: \(seen)")
        return
      }
      #expect(session.user == "alice" && session.deviceNumber == 1 && session.cipher == "AES-128-GCM")
      #expect(address.hasPrefix("127.0.0.1:"))
      await alice.close()
      #expect(await alice.wait(for: states) { $0.isClosed } == [.closed(nil)])
      // Who asks later is told where it stands.
      #expect(await alice.wait { $0.isClosed } == [.closed(nil)])
    }
  }

  @Test(
    arguments: [([.aes128GCM], "AES-128-GCM"), ([.chaCha20Poly1305, .aes128GCM], "ChaCha20-Poly1305"), ([], nil)]
      as [([SIMPConnection.Configuration.Cipher], String?)])
  func datagramsAreSealedAsPreferred(ciphers: [SIMPConnection.Configuration.Cipher], cipher: String?) async throws {
    try await withSDKServer { server in
      let (alice, bob) = (try server.connection("alice") { $0.ciphers = ciphers }, try server.connection("bob"))
      let states = alice.states
      alice.start()
      bob.start()
      let seen = await alice.wait(for: states) { cipher == nil ? $0.isConnected : $0.isPathUp }
      let session = seen.compactMap { state in if case .connected(let session) = state { session } else { nil } }.last
      #expect(session?.cipher == cipher)
      await bob.wait { $0.isPathUp }
      try alice.post("sealed", to: "bob")
      #expect(try await bob.take(1).map(\.text) == ["sealed"])
      try await alice.drain(timeout: .seconds(20))
      #expect((alice.statistics.sentByUDP, alice.statistics.sentByTCP) == (cipher == nil ? (0, 1) : (1, 0)))
      await alice.close()
      await bob.close()
    }
  }

  @Test func postsArriveInOrderAndShareDatagrams() async throws {
    try await withSDKServer { server in
      try await withPair(server) { alice, bob in
        await alice.wait { $0.isPathUp }
        // On the driver's own thread: what is posted in a turn leaves together, however slow the machine is.
        alice.driver.execute { _ in
          do {
            for number in 1...1000 { try alice.post("\(number)", to: "bob") }
          } catch {
            Issue.record(error)
          }
        }
        let texts = try await bob.take(1000).map(\.text)
        #expect(texts == (1...1000).map { "\($0)" })
        try await alice.drain(timeout: .seconds(100))
        let statistics = alice.statistics
        #expect(statistics.delivered == 1000 && statistics.unfinished == 0)
        #expect(statistics.datagramsSent < 500, "\(statistics)")
      }
    }
  }

  @Test func withConnectionEndsCleanly() async throws {
    try await withSDKServer { server in
      let bob = try server.connection("bob")
      try await bob.connected()
      async let orders = bob.take(5).map(\.order)
      var patient = server.trusting
      patient.drainTimeout = .seconds(60)
      let token = try server.token("alice")
      let receipts = try await SIMPConnection.withConnection(to: server.address, token: token, configuration: patient) {
        alice in
        try (1...5).map { try alice.post("\($0)", to: "bob") }
      }
      #expect(try await orders == [1, 2, 3, 4, 5])
      for receipt in receipts { #expect(receipt.state == .delivered) }
      await bob.close()
    }
  }

  @Test func aSendOnlyConnectionLeavesTheUsersSessionAlone() async throws {
    try await withSDKServer { server in
      try await withPair(server) { alice, bob in
        let script = try server.connection("bob") { $0.isSendOnly = true }
        try await script.connected()
        try await script.send("from a script", to: "alice")
        #expect(try await alice.take(1).first?.from == "bob")
        try await alice.send("still there?", to: "bob")
        #expect(try await bob.take(1).first?.text == "still there?")
        #expect(try await script.take(1).isEmpty)
        await script.close()
      }
    }
  }

  @Test func pingsGoBothWays() async throws {
    try await withSDKServer { server in
      let alice = try server.connection("alice")
      try await alice.connected()
      await alice.wait { $0.isPathUp }
      #expect(try await alice.ping(via: .tcp, timeout: .seconds(60)) < .seconds(60))
      #expect(try await alice.ping(via: .udp, timeout: .seconds(60)) < .seconds(60))
      await alice.close()
      #expect(await code { _ = try await alice.ping(via: .tcp) } == .connectionLost)
    }
  }

  @Test func aDelegateIsTold() async throws {
    try await withSDKServer { server in
      let alice = try server.connection("alice")
      try await alice.connected()
      let listener = Listener()
      let bob = try SIMPConnection.connection(
        toRemoteHost: "127.0.0.1", port: Int(server.port), forUser: "bob", token: try server.token("bob"),
        delegate: listener, configuration: server.trusting)
      try await bob.connected()
      try await alice.send("hello", to: "bob")
      #expect(await listener.texts.first { _ in true } == "hello")
      await alice.close()
      await bob.close()
    }
  }

  @Test func aTokenOfSomebodyElseIsNoticed() async throws {
    try await withSDKServer { server in
      let listener = Listener()
      let carol = try SIMPConnection.connection(
        toRemoteHost: "127.0.0.1", port: Int(server.port), forUser: "carol", token: try server.token("bob"),
        delegate: listener, configuration: server.trusting)
      await carol.wait { $0.isClosed }
      #expect(await code { try await carol.connected() } == .tokenInvalid)
    }
  }
}

/// A delegate that makes a stream of what it is told.
private final class Listener: SIMPConnectionDelegate {
  let texts: AsyncStream<String>
  private let continuation: AsyncStream<String>.Continuation

  init() { (texts, continuation) = AsyncStream.makeStream() }

  func connection(_ connection: SIMPConnection, didReceive message: SIMPMessage) {
    continuation.yield(message.text ?? "")
  }
}
