import SimpIO
import Testing

@Suite struct LockedTests {
  @Test func nothingIsLostBetweenThreads() throws {
    let counter = Locked((sum: 0, calls: 0))
    // Loops for their threads: tasks might all run on one.
    let loops = try (0..<3).map { _ in try EventLoop() }
    for loop in loops {
      loop.startThread(name: "test-locked")
      loop.execute {
        for number in 1...300_000 {
          counter.withLock { value in
            value.sum += number
            value.calls += 1
          }
        }
      }
    }
    for loop in loops { loop.close() }
    let total = counter.withLock { $0 }
    #expect(total.calls == 900_000)
    #expect(total.sum == 3 * 300_000 * 300_001 / 2)
  }

  @Test func itIsFreeAgainAfterAnError() {
    let value = Locked(1)
    #expect(throws: IOError.self) {
      try value.withLock { _ in throw IOError(code: 1, operation: "test") }
    }
    #expect(value.withLock { $0 } == 1)
  }
}
