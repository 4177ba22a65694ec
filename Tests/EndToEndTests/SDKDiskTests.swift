import ProgramRig
import SimpCore
import SimpIO
import SimpServer
import Testing

@testable import SimpConnection

/// A store whose disk is full. For root, who can make a small disk.
@Suite(.timeLimit(.minutes(5)), .enabled(if: SmallDisk.isPossible))
struct SDKDiskTests {
  private let disk: SmallDisk

  init() throws { disk = try SmallDisk(kibibytes: 32 << 10) }

  @Test func whatIsNotInTheStoreDoesNotLeave() async throws {
    try await withSDKServer { server in
      let bob = try server.connection("bob")
      try await bob.connected()
      let alice = try server.connection("alice") { $0.store = disk.path + "/store" }
      try await alice.connected()
      try await alice.send("1", to: "bob")
      disk.fill()
      // The log may have some room left that was there before.
      var refused = 0
      var sent = 1
      for _ in 0..<200 where refused < 3 {
        do {
          try await alice.send(String(repeating: "x", count: 50_000), to: "bob")
          sent += 1
        } catch {
          let error = try #require(error as? SIMPError)
          #expect(error.code == .storeFailed && error.message.contains("disk is full"))
          refused += 1
        }
      }
      #expect(refused == 3 && alice.lastOrder(to: "bob") == UInt64(sent))
      disk.makeRoom()
      try await alice.send("last", to: "bob")
      let messages = try await bob.take(sent + 1)
      #expect(messages.last?.text == "last" && messages.map(\.order) == (1...sent + 1).map { UInt64($0) })
      try await alice.drain(timeout: .seconds(60))
      #expect(bob.statistics.received == sent + 1)
      await alice.close()
      await bob.close()
    }
  }

  @Test func deliveredIsSaidWhenItIsStored() async throws {
    try await withSDKServer { server in
      let bob = try server.connection("bob") { $0.store = disk.path + "/store" }
      try await bob.connected()
      let states = bob.states
      let alice = try server.connection("alice")
      try await alice.connected()
      disk.fill()
      let large = SIMPContent(text: "1", custom: [UInt8](repeating: 7, count: 200_000))
      let receipt = try alice.post(large, to: "bob")
      // Tried again after a second: time enough for a receipt that must not be.
      for _ in 0..<2 {
        let seen = await bob.wait(for: states) { if case .storeFailed = $0 { true } else { false } }
        guard case .storeFailed(let error)? = seen.last else {
          Issue.record("\(seen)")
          return
        }
        #expect(error.code == .storeFailed && error.message.contains("disk is full"))
      }
      let rounds = (
        try await bob.ping(via: .tcp, timeout: .seconds(60)), try await alice.ping(via: .tcp, timeout: .seconds(60))
      )
      #expect(rounds.0 > .zero && rounds.1 > .zero && receipt.state == .accepted)
      try alice.post("2", to: "bob")
      disk.makeRoom()
      #expect(try await bob.take(2).map(\.text) == ["1", "2"])
      try await alice.drain(timeout: .seconds(60))
      await alice.close()
      await bob.close()
    }
  }
}
