import Glibc
import SimpIO
import Testing

@Suite struct ServerHealthTests {
  enum Part: CaseIterable { case reactor, acceptor }

  /// Whichever thread does nothing any more.
  @Test(arguments: Part.allCases) func aServerIsAliveWhileEachThreadAnswers(_ part: Part) async throws {
    try await withSDKServer { server in
      @Sendable func on(_ part: Part, _ body: @escaping @Sendable () -> Void) {
        switch part {
        case .reactor: server.onReactor(body)
        case .acceptor: server.onAcceptor(body)
        }
      }
      await withCheckedContinuation { continuation in server.checkReactors { continuation.resume() } }
      // Who reads from a pipe with nothing in it does nothing else.
      var ends: [Int32] = [0, 0]
      let isMade = unsafe pipe(&ends) == 0
      try #require(isMade)
      let (read, write) = (ends[0], ends[1])
      let isAlive = Locked(false)
      on(part) {
        var byte: UInt8 = 0
        _ = unsafe Glibc.read(read, &byte, 1)
      }
      server.checkReactors { isAlive.withLock { $0 = true } }
      // The other thread has answered, and the control loop has heard it.
      for _ in 0..<3 {
        await withCheckedContinuation { continuation in server.onControl { continuation.resume() } }
        await withCheckedContinuation { continuation in
          on(part == .reactor ? .acceptor : .reactor) { continuation.resume() }
        }
      }
      await withCheckedContinuation { continuation in server.onControl { continuation.resume() } }
      #expect(!isAlive.withLock { $0 })
      var byte: UInt8 = 1
      _ = unsafe Glibc.write(write, &byte, 1)
      // Each answer comes after what was asked of that thread before.
      for _ in 0..<3 {
        await withCheckedContinuation { continuation in server.onReactor { continuation.resume() } }
        await withCheckedContinuation { continuation in server.onAcceptor { continuation.resume() } }
        await withCheckedContinuation { continuation in server.onControl { continuation.resume() } }
      }
      #expect(isAlive.withLock { $0 })
      close(read)
      close(write)
    }
  }
}
