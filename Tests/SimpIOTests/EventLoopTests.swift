import Glibc
import SimpCore
import SimpIO
import Synchronization
import Testing

@Suite struct EventLoopTests {
  private final class Seen: Sendable {
    let numbers = Locked<[[Int]]>(Array(repeating: [], count: 4))
  }

  @Test func workFromManyThreadsRunsInTheOrderEachGaveIt() async throws {
    let loop = try EventLoop()
    loop.startThread(name: "test-loop")
    let seen = Seen()
    await withTaskGroup { group in
      for giver in 0..<4 {
        group.addTask {
          for number in 0..<2000 {
            loop.execute {
              loop.preconditionCurrent()
              seen.numbers.withLock { $0[giver].append(number) }
            }
          }
        }
      }
    }
    await withCheckedContinuation { done in loop.execute { done.resume() } }
    loop.close()
    for numbers in seen.numbers.withLock({ $0 }) { #expect(numbers == Array(0..<2000)) }
  }

  /// A thread may yield the processor to its process's others, by so much more than its maker.
  @Test func aThreadYieldsByAsMuchAsItIsTold() async throws {
    @Sendable func nicenessOfCaller() -> Int32 { getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0) }
    let own = nicenessOfCaller()
    for more: Int32 in [0, 3] {
      let loop = try EventLoop()
      loop.startThread(name: "test-nice", niceness: more)
      let found = await withCheckedContinuation { done in loop.execute { done.resume(returning: nicenessOfCaller()) } }
      loop.close()
      #expect(found == min(own + more, 19))
    }
  }

  @Test func workIsDoneBeforeStopAndDroppedAfterIt() throws {
    let loop = try EventLoop()
    let done = Atomic(0)
    loop.execute { done.add(1, ordering: .relaxed) }
    loop.stop()
    loop.execute { done.add(100, ordering: .relaxed) }
    loop.run()
    #expect(done.load(ordering: .relaxed) == 1)
    loop.close()
    loop.close()
    loop.execute { done.add(1000, ordering: .relaxed) }
    loop.stop()
    #expect(done.load(ordering: .relaxed) == 1)
  }

  @Test func closeOnItsOwnThreadEndsTheLoopAfterTheTurn() async throws {
    let loop = try EventLoop()
    loop.startThread(name: "test-loop")
    await withCheckedContinuation { done in
      loop.execute {
        loop.close()
        #expect(loop.isCurrent)
        done.resume()
      }
    }
  }

  @Test func isCurrentOnlyOnItsThread() async throws {
    let loop = try EventLoop()
    #expect(loop.isCurrent)
    loop.startThread(name: "test-loop")
    #expect(!loop.isCurrent)
    let inside = await withCheckedContinuation { done in loop.execute { done.resume(returning: loop.isCurrent) } }
    #expect(inside)
    loop.close()
  }

  @Test func workThatDiesWithTheLoopMayStillComeBackToIt() throws {
    final class Holder: Sendable {
      let loop: EventLoop
      init(_ loop: EventLoop) { self.loop = loop }
      deinit { loop.execute {} }
    }
    let loop = try EventLoop()
    do {
      // Only the work holds it.
      let holder = Holder(loop)
      loop.execute { _ = holder }
    }
    loop.close()
  }

  @Test func turnEndHooksRunOnceATurnInOrderUntilRemoved() throws {
    var calls: [String] = []
    try withLoop { loop in
      var turn = 0
      let first = loop.addTurnEnd { calls.append("a\(turn)") }
      loop.addTurnEnd { calls.append("b\(turn)") }
      let timer = loop.makeTimer {
        turn = 1
        first.remove()
        first.remove()
        loop.stop()
      }
      timer.arm(at: loop.now)
    }
    // Turn 0 ends before the timer can come; later ends are without the removed hook.
    #expect(calls.prefix(2) == ["a0", "b0"])
    #expect(Set(calls.dropFirst(2)) == ["b1"])
  }

  @Test func aLoopWithNothingOpenIsFreedWithoutClose() throws {
    weak var held: EventLoop?
    do {
      let loop = try EventLoop()
      held = loop
    }
    #expect(held == nil)
  }
}
