import Testing

@testable import SimpConnection

@Suite(.timeLimit(.minutes(5)))
struct SDKWatchedTests {
  private let letters = Watched<[Int]>([])

  private func take() async -> Waited<Int> {
    await letters.wait { $0.isEmpty ? nil : $0.removeFirst() }
  }

  /// Until `count` tasks sleep in their waits.
  private func settle(_ count: Int) async {
    while letters.sleepers < count { await Task.yield() }
  }

  @Test func whatIsThereIsTakenAtOnce() async {
    letters.update { $0 = [1, 2] }
    #expect(await take().value == 1)
    #expect(await take().value == 2)
  }

  @Test func aSleeperIsWoken() async {
    let waiting = Task { await take() }
    await settle(1)
    letters.update { $0.append(7) }
    #expect(await waiting.value.value == 7)
  }

  @Test func eachLetterGoesToOneOfMany() async {
    let waiting = (0..<10).map { _ in Task { await take() } }
    await settle(10)
    for letter in 0..<10 { letters.update { $0.append(letter) } }
    var taken: Set<Int> = []
    for task in waiting { if let letter = await task.value.value { taken.insert(letter) } }
    #expect(taken == Set(0..<10))
  }

  @Test func aSleeperThatIsCancelledTakesNothing() async {
    let waiting = Task { await take() }
    await settle(1)
    waiting.cancel()
    guard case .cancelled = await waiting.value else {
      Issue.record("not cancelled")
      return
    }
    #expect(letters.sleepers == 0)
    letters.update { $0.append(7) }
    #expect(await take().value == 7)
  }

  @Test func aTaskThatWasCancelledBeforeTakesNothing() async {
    letters.update { $0 = [7] }
    let waiting = Task {
      while !Task.isCancelled { await Task.yield() }
      return await take()
    }
    waiting.cancel()
    guard case .cancelled = await waiting.value else {
      Issue.record("not cancelled")
      return
    }
    #expect(letters.read(\.self) == [7])
  }

  @Test func aWaitThatMustNotBeCancelledIsNot() async {
    let waiting = Task { await letters.wait(isCancellable: false) { $0.first } }
    await settle(1)
    waiting.cancel()
    letters.update { $0.append(7) }
    #expect(await waiting.value.value == 7)
  }

  @Test func timeEndsAWait() async {
    let waited = await letters.wait(timeout: .milliseconds(20)) { $0.first }
    guard case .timedOut = waited else {
      Issue.record("\(waited)")
      return
    }
    #expect(letters.sleepers == 0)
  }

  @Test func cancelAndChangeAtOnceLoseNothing() async {
    // Whoever wins, the letter is with the task or still there.
    for _ in 0..<500 {
      let waiting = Task { await take() }
      await settle(1)
      let changing = Task { letters.update { $0.append(7) } }
      waiting.cancel()
      await changing.value
      let taken = await waiting.value.value
      let left = letters.change { letters in
        defer { letters = [] }
        return letters
      }
      #expect((taken.map { [$0] } ?? []) + left == [7])
    }
  }
}

extension Waited {
  fileprivate var value: Value? { if case .value(let value) = self { value } else { nil } }
}
