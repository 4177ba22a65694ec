import Glibc
import ProgramRig
import SimpConnection
import SimpIO
import Testing

/// kill -9 of a client while it sends from a file store.
@Suite(.timeLimit(.minutes(20)))
struct SDKKillTests {
  private static func number(_ name: String, otherwise usual: Int) -> Int {
    // SAFETY: no test changes the environment; the text is copied at once.
    let text = unsafe getenv(name).map { unsafe String(cString: $0) }
    return text.flatMap { Int($0) } ?? usual
  }

  /// How often, and how many messages: SIMP_KILLS (200 in full) and SIMP_KILL_MESSAGES (20000).
  @Test func eachMessageArrivesOnceAndInOrder() async throws {
    let kills = Self.number("SIMP_KILLS", otherwise: 8)
    let count = Self.number("SIMP_KILL_MESSAGES", otherwise: 800)
    let directory = try TestDirectory()
    try await withSDKServer { server in
      let bob = try server.connection("bob")
      try await bob.connected()
      async let arrived = bob.take(count)
      var lives = 0
      while true {
        let isLast = lives >= kills
        // From the start of the program, or from the first commit: all that it does is interrupted somewhere.
        let instant = isLast ? 0 : lives % 2 == 0 ? Int.random(in: 1...300_000) : -Int.random(in: 1...60_000)
        let share = isLast ? count : max(1, count / kills)
        let program = try await RunningProgram(
          "store-rig",
          [
            "chat", directory.path + "/store", server.address, try server.token("alice"), server.pin ?? "", "\(count)",
            "\(share)", "\(instant)",
          ], in: directory)
        let status = try await program.end(seconds: 600)
        guard status != 0 else { break }
        try #require(status == 128 + SIGALRM, "\(program.output)\(program.errorOutput)")
        lives += 1
      }
      #expect(lives >= kills)
      let messages = try await arrived
      #expect(messages.map(\.order) == (1...count).map { UInt64($0) })
      #expect(messages.map(\.text) == (1...count).map { "\($0)" })
      #expect(messages.allSatisfy { !$0.isLate && !$0.isRedelivered })
      // One device, whatever became of it: its number is in the store.
      #expect(Set(messages.map(\.device)).count == 1)
      #expect(bob.statistics.received == count)
      await bob.close()
    }
  }
}
