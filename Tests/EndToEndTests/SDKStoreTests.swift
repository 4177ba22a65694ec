import Glibc
import SimpCore
import SimpIO
import SimpServer
import Testing

@testable import SimpConnection

/// The library with a store: what a connection leaves there, the next one takes up.
@Suite(.timeLimit(.minutes(5)))
struct SDKStoreTests {
  private let files: SDKDirectory

  init() throws { files = try SDKDirectory() }

  private func path(_ name: String) -> String { files.path + "/" + name }

  private func connection(
    _ server: SDKServer, _ user: String, store: String? = nil,
    _ configure: (inout SIMPConnection.Configuration) -> Void = { _ in }
  ) throws -> SIMPConnection {
    try server.connection(user) { configuration in
      configuration.store = path(store ?? user)
      configure(&configuration)
    }
  }

  @Test func whatWasNotDeliveredIsTakenUpByTheNextConnection() async throws {
    try await withSDKServer { server in
      let first = try connection(server, "alice")
      try await first.connected()
      for number in 1...50 { try first.post("\(number)", to: "bob") }
      // Nobody is there to get it.
      let last = try first.post("51", to: "bob")
      try await last.kept()
      let id = last.id
      await first.close()
      await #expect(throws: SIMPError.self) { try await last.delivered }

      let second = try connection(server, "alice")
      #expect(second.restored.count == 51 && second.statistics.unfinished == 0)
      #expect(second.lastOrder(to: "bob") == 51 && second.lastOrder(to: "carol") == 0)
      #expect(second.restored.last?.id == id && id != 0)
      let bob = try server.connection("bob")
      try await bob.connected()
      try await second.connected()
      try second.post("52", to: "bob")
      let messages = try await bob.take(52)
      #expect(messages.map(\.text) == (1...52).map { "\($0)" })
      #expect(messages.map(\.order) == (1...52).map { $0 } && messages[50].id == id)
      try await second.restored[0].reached(.delivered)
      try await second.drain(timeout: .seconds(60))
      await second.close()
      let third = try connection(server, "alice")
      #expect(third.restored.isEmpty && third.lastOrder(to: "bob") == 52)
      await third.close()
      await bob.close()
    }
  }

  @Test func beforeItEverConnectedAsWell() async throws {
    try await withSDKServer { server in
      let offline = try connection(server, "alice")
      try await offline.post("written on a plane", to: "bob").kept()
      await offline.close()
      let bob = try server.connection("bob")
      try await bob.connected()
      let alice = try connection(server, "alice")
      try await alice.connected()
      #expect(try await bob.take(1).map(\.text) == ["written on a plane"])
      try await alice.restored[0].accepted()
      await alice.close()
      await bob.close()
    }
  }

  @Test func whatWasNotTakenIsShownFirst() async throws {
    try await withSDKServer { server in
      let alice = try server.connection("alice")
      try await alice.connected()
      let bob = try connection(server, "bob")
      try await bob.connected()
      for number in 1...9 { try alice.post("\(number)", to: "bob") }
      // Delivered once it is in the store, though nobody took it.
      try await alice.drain(timeout: .seconds(60))
      #expect(try await bob.take(4).map(\.text) == ["1", "2", "3", "4"])
      await bob.close()

      let again = try connection(server, "bob")
      // Without a session, from the store alone.
      let messages = try await again.take(3)
      #expect(messages.map(\.text) == ["5", "6", "7"] && messages.allSatisfy { !$0.isRedelivered })
      try await again.connected()
      try await alice.send("10", to: "bob")
      #expect(try await again.take(3).map(\.text) == ["8", "9", "10"])
      await again.close()
      let last = try connection(server, "bob")
      try await last.connected()
      try await alice.send("11", to: "bob")
      #expect(try await last.take(1).map(\.text) == ["11"])
      await last.close()
      await alice.close()
    }
  }

  @Test func whatWasNotAcknowledgedIsShownAgain() async throws {
    try await withSDKServer { server in
      let alice = try server.connection("alice")
      try await alice.connected()
      let bob = try connection(server, "bob") { $0.acknowledgement = .manual }
      try await bob.connected()
      for number in 1...5 { try alice.post("\(number)", to: "bob") }
      let taken = try await bob.take(3)
      taken[1].acknowledge()
      try await alice.drain(timeout: .seconds(60))
      await bob.close()

      let again = try connection(server, "bob") { $0.acknowledgement = .manual }
      let messages = try await again.take(4)
      #expect(messages.map(\.text) == ["1", "3", "4", "5"])
      #expect(messages.map(\.isRedelivered) == [true, true, false, false])
      for message in messages { message.acknowledge() }
      await again.close()
      let last = try connection(server, "bob")
      try await last.connected()
      try await alice.send("6", to: "bob")
      #expect(try await last.take(1).map(\.text) == ["6"])
      await last.close()
      await alice.close()
    }
  }

  @Test func aStoreIsForOneConnectionAtATime() async throws {
    try await withSDKServer { server in
      let alice = try connection(server, "alice")
      #expect(throws: SIMPError.self) { try connection(server, "alice") }
      #expect(await code { _ = try connection(server, "bob", store: "alice") } == .storeInUse)
      await alice.close()
      let again = try connection(server, "alice")
      await again.close()
    }
  }

  @Test func aStoreIsForOneUser() async throws {
    try await withSDKServer { server in
      let alice = try connection(server, "alice")
      try await alice.connected()
      try await alice.send("for bob", to: "bob")
      await alice.close()
      let mallory = try connection(server, "mallory", store: "alice")
      let bob = try server.connection("bob")
      try await bob.connected()
      let refusal = await code {
        try await mallory.connected()
        try await mallory.send("x", to: "bob")
      }
      #expect(refusal == .storeOfAnother)
      await mallory.close()
      // It stays whose it was, and nothing left under the other name.
      let again = try connection(server, "alice")
      try await again.connected()
      let message = try #require(try await bob.take(1).first)
      #expect(message.from == "alice" && message.text == "for bob" && message.order == 1)
      await again.close()
      await bob.close()
    }
  }

  @Test func whatCannotBeAStoreIsSaidAtOnce() async throws {
    try await withSDKServer { server in
      #expect(await code { _ = try server.connection("alice") { $0.store = files.path } } == .storeInvalid)
      let nowhere = files.path + "/no/store"
      #expect(await code { _ = try server.connection("alice") { $0.store = nowhere } } == .storeInvalid)
    }
  }

  @Test func aFullOutboxIsFullAfterARestart() async throws {
    try await withSDKServer { server in
      let alice = try connection(server, "alice") { $0.outboxMessages = 3 }
      for _ in 1...3 { try await alice.post("x", to: "bob").kept() }
      await alice.close()
      let again = try connection(server, "alice") { $0.outboxMessages = 3 }
      #expect(await code { try again.post("y", to: "bob") } == .outboxFull)
      await again.close()
    }
  }

  /// A sender of many, and a reader that takes none: the server is told DELIVERED as far as the room goes, no further.
  @Test func aSlowReaderHoldsBackItsSenders() async throws {
    try await withSDKServer { server in
      let alice = try server.connection("alice")
      try await alice.connected()
      let bob = try connection(server, "bob") { $0.bufferMessages = 16 }
      try await bob.connected()
      let receipts = try (1...200).map { try alice.post("\($0)", to: "bob") }
      // Some by way of his inbox, if the server had not heard yet that it is empty.
      for receipt in receipts[..<16] { try await receipt.reached(.delivered) }
      #expect(receipts.filter { $0.state == .delivered }.count == 16)
      #expect(try await bob.take(200).map(\.text) == (1...200).map { "\($0)" })
      try await alice.drain(timeout: .seconds(60))
      await bob.close()
      await alice.close()
    }
  }
}
