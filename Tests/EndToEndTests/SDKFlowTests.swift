import SimpCore
import Testing

@testable import SimpConnection

@Suite(.timeLimit(.minutes(5)))
struct SDKFlowTests {
  @Test func aFullOutboxIsToldAndEmptiesAgain() async throws {
    try await withSDKServer { server in
      let alice = try server.connection("alice") { $0.outboxMessages = 10 }
      for number in 1...10 { try alice.post("\(number)", to: "bob") }
      #expect(await code { try alice.post("11", to: "bob") } == .outboxFull)
      #expect(await code { try await alice.send("11", to: "bob") } == .outboxFull)
      let bob = try server.connection("bob")
      try await bob.connected()
      try await alice.connected()
      #expect(try await bob.take(10).map(\.text) == (1...10).map { "\($0)" })
      try await alice.drain(timeout: .seconds(100))
      try await alice.send("11", to: "bob")
      await alice.close()
      await bob.close()
    }
  }

  @Test func bytesAreCountedToo() async throws {
    let alice = try SIMPConnection.offline { $0.outboxBytes = 10_000 }
    let text = String(repeating: "x", count: 4000)
    try alice.post(text, to: "bob")
    try alice.post(text, to: "bob")
    #expect(await code { try alice.post(text, to: "bob") } == .outboxFull)
    try alice.post("small", to: "bob")
    await alice.close()
  }

  @Test func aSlowReaderHoldsNoMoreThanItsRoom() async throws {
    try await withSDKServer { server in
      let alice = try server.connection("alice")
      let bob = try server.connection("bob") { $0.bufferMessages = 16 }
      try await alice.connected()
      try await bob.connected()
      await alice.wait { $0.isPathUp }
      let receipts = try (1...200).map { try alice.post("\($0)", to: "bob") }
      // What finds no room is answered LATER: then it is known that bob is full.
      try await receipts[199].accepted()
      // Relayed to him is not arrived.
      while bob.driver.inbox.read(\.count) < 2 { try await Task.sleep(for: .milliseconds(2)) }
      var most = 0
      var texts: [String?] = []
      for try await message in bob.messages {
        most = max(most, bob.driver.inbox.read(\.count) + 1)
        texts.append(message.text)
        if texts.count == 200 { break }
      }
      #expect(texts == (1...200).map { "\($0)" })
      #expect((2...16).contains(most), "\(most)")
      await alice.close()
      await bob.close()
    }
  }

  @Test func deliveredIsSaidWhenTheApplicationTakesTheMessage() async throws {
    try await withSDKServer { server in
      try await withPair(server) { alice, bob in
        let receipts = [try await alice.send("1", to: "bob"), try await alice.send("2", to: "bob")]
        var iterator = bob.messages.makeAsyncIterator()
        _ = try await iterator.next()
        _ = try await receipts[0].delivered
        #expect(receipts[1].state == .accepted)
        _ = try await iterator.next()
        _ = try await receipts[1].delivered
      }
    }
  }

  @Test func byHandDeliveredIsSaidWhenTheApplicationSaysSo() async throws {
    try await withSDKServer { server in
      try await withPair(server) {
        $0.acknowledgement = .manual
      } _: { alice, bob in
        let receipts = try [alice.post("1", to: "bob"), alice.post("2", to: "bob")]
        let messages = try await bob.take(2)
        // The second is acknowledged first; twice counts once.
        messages[1].acknowledge()
        messages[1].acknowledge()
        _ = try await receipts[1].delivered
        #expect(receipts[0].state == .accepted)
        messages[0].acknowledge()
        _ = try await receipts[0].delivered
        #expect(alice.statistics.delivered == 2)
      }
    }
  }

  @Test func oneMessageIsAcknowledgedOnce() async throws {
    let connection = try SIMPConnection.offline()
    let acknowledgement = Acknowledgement(TakenMessage(from: "alice", device: 1, order: 1), driver: connection.driver)
    // On the driver's thread, so that it does not take them away in between.
    let counted = Watched<Int?>(nil)
    connection.driver.execute { driver in
      acknowledgement.give()
      acknowledgement.give()
      counted.update { $0 = driver.inbox.change { $0.drainTaken().count } }
    }
    guard case .value(let count) = await counted.wait(until: { $0 }) else { return }
    #expect(count == 1)
    await connection.close()
  }

  @Test func whatWasNotAcknowledgedComesAgain() async throws {
    try await withSDKServer { server in
      let alice = try server.connection("alice")
      try await alice.connected()
      let first = try server.connection("bob") { $0.acknowledgement = .manual }
      try await first.connected()
      let receipts = try [alice.post("1", to: "bob"), alice.post("2", to: "bob")]
      try await first.take(2)[1].acknowledge()
      await first.close()
      let second = try server.connection("bob")
      try await second.connected()
      #expect(try await second.take(1).first?.text == "1")
      for receipt in receipts { try await receipt.reached(.delivered) }
      #expect(second.statistics.received == 1)
      await alice.close()
      await second.close()
    }
  }

  @Test func whatWasTakenIsReceiptedBeforeTheGoodbye() async throws {
    try await withSDKServer { server in
      try await withPair(server) { alice, bob in
        let receipts = try (1...3).map { try alice.post("\($0)", to: "bob") }
        #expect(try await bob.take(3).count == 3)
        await bob.close()
        for receipt in receipts { _ = try await receipt.delivered }
      }
    }
  }

  @Test func aMessageForSomebodyAwayWaits() async throws {
    try await withSDKServer(keepsInboxes: false) { server in
      let alice = try server.connection("alice")
      try await alice.connected()
      let receipt = try await alice.send("are you there?", to: "bob")
      #expect(receipt.state == .later)
      // It waits behind the first and is not offered; its sender hears that all the same.
      let second = try await alice.send("and now?", to: "bob")
      #expect(second.state == .later)
      #expect(await code { try await alice.drain(timeout: .milliseconds(50)) } == .timedOut)
      let bob = try server.connection("bob")
      try await bob.connected()
      #expect(try await bob.take(2).map(\.text) == ["are you there?", "and now?"])
      _ = try await receipt.delivered
      _ = try await second.delivered
      await alice.close()
      await bob.close()
    }
  }

  @Test func aMessageForSomebodyAwayIsStored() async throws {
    try await withSDKServer { server in
      let alice = try server.connection("alice")
      try await alice.connected()
      let receipts = try (1...300).map { try alice.post("\($0)", to: "bob") }
      // He never logged in: his inbox is a small one, and what does not fit stays here.
      for receipt in receipts.prefix(100) { #expect(await code { _ = try await receipt.delivered } == .stored) }
      #expect(await code { try await alice.drain(timeout: .milliseconds(50)) } == .timedOut)
      #expect(alice.statistics.stored == 100 && alice.statistics.delivered == 0)
      await alice.close()

      let bob = try server.connection("bob")
      try await bob.connected()
      #expect(try await bob.take(100).map(\.text) == (1...100).map { "\($0)" })
      await bob.close()
    }
  }

  @Test func openReceiptsEndWithTheConnection() async throws {
    let alice = try SIMPConnection.offline()
    let receipt = try alice.post("1", to: "bob")
    let waiting = Task { await code { _ = try await receipt.delivered } }
    let draining = Task { await code { try await alice.drain(timeout: .seconds(50)) } }
    let sending = Task { await code { try await alice.send("2", to: "bob") } }
    await alice.close()
    #expect(await waiting.value == .closed)
    #expect(await draining.value == .closed)
    #expect(await sending.value == .closed)
    #expect(receipt.state == .queued)
  }

  @Test func aConnectionThatIsLetGoOfEnds() async throws {
    try await withSDKServer(keepsInboxes: false) { server in
      var alice: SIMPConnection? = try server.connection("alice")
      try await alice?.connected()
      let states = try #require(alice?.states)
      let messages = try #require(alice?.messages)
      // One the driver has, and one on its way to it.
      let receipts = [
        try #require(try await alice?.send("lost", to: "nobody")), try #require(try alice?.post("lost", to: "nobody")),
      ]
      alice = nil
      for await _ in states {}
      for try await _ in messages {}
      for receipt in receipts { #expect(await code { _ = try await receipt.delivered } == .closed) }
    }
  }

  // MARK: - Cancellation

  @Test func aCancelledReaderLosesNothing() async throws {
    try await withSDKServer { server in
      try await withPair(server) { alice, bob in
        await alice.wait { $0.isPathUp }
        for number in 1...100 {
          let reader = Task { try await bob.take(1) }
          while bob.driver.inbox.sleepers == 0 { await Task.yield() }
          try alice.post("\(number)", to: "bob")
          // It is cancelled when the message wakes it, or a moment before or after.
          while bob.driver.inbox.sleepers > 0, number % 3 > 0 { await Task.yield() }
          if number % 3 == 1 { await Task.yield() }
          reader.cancel()
          // Whether that was in time or not, the message is somewhere: with this reader or for the next.
          var taken = try await reader.value
          if taken.isEmpty { taken = try await bob.take(1) }
          #expect(taken.first?.text == "\(number)")
          #expect(bob.statistics.received == number, "counted before it is shown")
        }
        try await alice.drain(timeout: .seconds(100))
      }
    }
  }

  @Test func aCancelledSendStillArrives() async throws {
    try await withSDKServer { server in
      let alice = try server.connection("alice")
      let sending = Task { await code { try await alice.send("unstoppable", to: "bob") } }
      // Not connected yet, so it waits.
      while alice.driver.outgoing.read(\.open) == 0 { await Task.yield() }
      sending.cancel()
      #expect(await sending.value == .cancelled)
      let bob = try server.connection("bob")
      try await bob.connected()
      try await alice.connected()
      #expect(try await bob.take(1).first?.text == "unstoppable")
      await alice.close()
      await bob.close()
    }
  }

  @Test func everyWaitCanBeCancelled() async throws {
    let alice = try SIMPConnection.offline()
    let receipt = try alice.post("1", to: "bob")
    let waits: [@Sendable () async throws -> Void] = [
      { try await alice.connected() }, { try await receipt.accepted() }, { _ = try await receipt.delivered },
      { try await alice.drain(timeout: .seconds(50)) }, { try await alice.send("2", to: "bob") },
    ]
    for wait in waits {
      let task = Task { await code { try await wait() } }
      task.cancel()
      #expect(await task.value == .cancelled)
    }
    let states = Task { await alice.wait { $0.isClosed } }
    states.cancel()
    #expect(await states.value.last?.isClosed != true)
    await alice.close()
  }

  // MARK: - Many

  @Test func twoHundredConnectionsShareOneThread() async throws {
    try await withSDKServer { server in
      let people = try (0..<200).map { try server.connection("user\($0)") }
      for person in people { person.start() }
      for person in people { try await person.connected() }
      for (number, person) in people.enumerated() {
        for count in 1...5 { try person.post("\(number) \(count)", to: "user\((number + 1) % 200)") }
      }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for (number, person) in people.enumerated() {
          group.addTask {
            let texts = try await person.take(5).map(\.text)
            #expect(texts == (1...5).map { "\((number + 199) % 200) \($0)" })
          }
        }
        try await group.waitForAll()
      }
      #expect(Set(people.map { ObjectIdentifier($0.driver.thread) }).count == 1)
      await withTaskGroup(of: Void.self) { group in
        for person in people { group.addTask { await person.close() } }
      }
    }
  }

  @Test func manyTasksPostAtOnce() async throws {
    try await withSDKServer { server in
      try await withPair(server) { alice, bob in
        async let taken = bob.take(1000)
        await withTaskGroup(of: Void.self) { group in
          for task in 0..<10 {
            group.addTask {
              for count in 0..<100 {
                _ = try? alice.post("\(task) \(count)", to: "bob")
                await Task.yield()
              }
            }
          }
        }
        let texts = try await taken.compactMap(\.text)
        #expect(Set(texts).count == 1000)
        for task in 0..<10 {
          let own = texts.filter { $0.hasPrefix("\(task) ") }
          #expect(own == (0..<100).map { "\(task) \($0)" })
        }
      }
    }
  }
}

extension SIMPConnection {
  /// A connection that never finds its server.
  static func offline(_ configure: (inout Configuration) -> Void = { _ in }) throws -> SIMPConnection {
    var configuration = Configuration()
    configure(&configuration)
    return try SIMPConnection(to: "127.0.0.1:9", token: "t", configuration: configuration)
  }
}
