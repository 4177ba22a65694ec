import Glibc
import SimpIO
import Testing

@Suite struct ServerHealthTests {
  @Test func aServerIsAliveWhileEachReactorAnswers() async throws {
    try await withSDKServer { server in
      await withCheckedContinuation { continuation in server.checkReactors { continuation.resume() } }
      // A reactor that reads from a pipe with nothing in it does nothing else.
      var ends: [Int32] = [0, 0]
      let isMade = unsafe pipe(&ends) == 0
      try #require(isMade)
      let (read, write) = (ends[0], ends[1])
      let isAlive = Locked(false)
      server.onReactor {
        var byte: UInt8 = 0
        _ = unsafe Glibc.read(read, &byte, 1)
      }
      server.checkReactors { isAlive.withLock { $0 = true } }
      // The control loop has taken the question, and three turns since.
      for _ in 0..<3 { await withCheckedContinuation { continuation in server.onControl { continuation.resume() } } }
      #expect(!isAlive.withLock { $0 })
      var byte: UInt8 = 1
      _ = unsafe Glibc.write(write, &byte, 1)
      // Each answer comes after what was asked before.
      for _ in 0..<3 {
        await withCheckedContinuation { continuation in server.onReactor { continuation.resume() } }
        await withCheckedContinuation { continuation in server.onControl { continuation.resume() } }
      }
      #expect(isAlive.withLock { $0 })
      close(read)
      close(write)
    }
  }
}
