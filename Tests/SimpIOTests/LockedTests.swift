import SimpIO
import Testing

@Suite struct LockedTests {
  @Test func nothingIsLostBetweenThreads() async {
    let counter = Locked((sum: 0, calls: 0))
    await withTaskGroup { group in
      for _ in 0..<4 {
        group.addTask {
          for number in 1...5000 {
            counter.withLock { value in
              value.sum += number
              value.calls += 1
            }
          }
        }
      }
    }
    let total = counter.withLock { $0 }
    #expect(total.calls == 20_000)
    #expect(total.sum == 4 * 5000 * 5001 / 2)
  }

  @Test func itIsFreeAgainAfterAnError() {
    let value = Locked(1)
    #expect(throws: IOError.self) {
      try value.withLock { _ in throw IOError(code: 1, operation: "test") }
    }
    #expect(value.withLock { $0 } == 1)
  }
}
