import SimpCore
import SimpIO
import Testing

@Suite struct LoopTimerTests {
  @Test func timersComeInOrderAndNeverEarly() throws {
    var random = SeededRandom(seed: 20_261)
    var fired: [(deadline: Instant, at: Instant)] = []
    try withLoop { loop in
      let start = loop.now
      let count = 300
      for _ in 0..<count {
        let deadline = start + .microseconds(Int64(random.next(upTo: 40_000)))
        let timer = loop.makeTimer {
          fired.append((deadline, loop.now))
          if fired.count == count { loop.stop() }
        }
        timer.arm(at: deadline)
      }
    }
    #expect(fired.count == 300)
    for (deadline, at) in fired { #expect(at >= deadline) }
    #expect(fired.map(\.deadline) == fired.map(\.deadline).sorted())
  }

  @Test func everyChangeOfMindCountsAndNothingElse() throws {
    var random = SeededRandom(seed: 7)
    var expected: [Int: Instant] = [:]
    var fired: [Int] = []
    try withLoop { loop in
      let start = loop.now
      let timers = (0..<200).map { number in
        loop.makeTimer {
          #expect(loop.now >= expected[number] ?? .never, "timer \(number)")
          fired.append(number)
        }
      }
      for _ in 0..<2000 {
        let number = random.next(upTo: 200)
        switch random.next(upTo: 8) {
        case 0:
          timers[number].disarm()
          expected[number] = nil
        case 1 where number % 10 == 0:
          timers[number].close()
          expected[number] = nil
        default:
          let deadline = start + .microseconds(Int64(10_000 + random.next(upTo: 30_000)))
          timers[number].arm(at: deadline)
          if timers[number].isArmed { expected[number] = deadline }
        }
      }
      let last = loop.makeTimer { loop.stop() }
      last.arm(at: start + .milliseconds(41))
    }
    #expect(fired.count == expected.count)
    #expect(Set(fired) == Set(expected.keys))
  }

  @Test func aDeadlineInThePastComesAtTheNextTurn() throws {
    var fired = 0
    try withLoop { loop in
      let timer = loop.makeTimer {
        fired += 1
        loop.stop()
      }
      timer.arm(at: Instant(nanoseconds: 0))
      #expect(fired == 0)
    }
    #expect(fired == 1)
  }

  @Test func movedForwardItComesForward() throws {
    var fired = false
    try withLoop { loop in
      let timer = loop.makeTimer {
        fired = true
        loop.stop()
      }
      timer.arm(at: loop.now + .seconds(3600))
      timer.arm(at: loop.now + .milliseconds(1))
    }
    #expect(fired)
  }

  @Test func aTimerMayArmAndCloseItselfWhileItFires() throws {
    var fired = 0
    var closed = 0
    try withLoop { loop in
      var again: LoopTimer?
      again = loop.makeTimer {
        fired += 1
        if fired < 3 { return again!.arm(at: loop.now) }
        again?.close()
        loop.stop()
      }
      again?.arm(at: loop.now)
      var once: LoopTimer?
      once = loop.makeTimer {
        closed += 1
        once?.close()
        once?.arm(at: loop.now)
        once = nil
      }
      once?.arm(at: loop.now)
    }
    #expect(fired == 3)
    #expect(closed == 1)
  }

  @Test func aTimerDisarmedByAnotherOfTheSameInstantDoesNotCome() throws {
    var fired: [String] = []
    try withLoop { loop in
      let instant = loop.now + .milliseconds(1)
      var second: LoopTimer?
      let first = loop.makeTimer {
        fired.append("first")
        second?.disarm()
        loop.stop()
      }
      second = loop.makeTimer { fired.append("second") }
      first.arm(at: instant)
      second?.arm(at: instant + Interval(nanoseconds: 1))
    }
    #expect(fired == ["first"])
  }

  @Test func aTimerThatKeepsComingLetsOthersThrough() throws {
    var fired = 0
    try withLoop { loop in
      var restless: LoopTimer?
      restless = loop.makeTimer {
        fired += 1
        restless?.arm(at: Instant(nanoseconds: 0))
        if fired == 10 { loop.execute { loop.stop() } }
      }
      restless?.arm(at: loop.now)
    }
    #expect(fired >= 10)
  }

  @Test func timersOfAClosedLoopAreHarmless() throws {
    let loop = try EventLoop()
    let timer = loop.makeTimer { Issue.record("a timer of a closed loop came") }
    timer.arm(at: loop.now)
    loop.close()
    timer.arm(at: loop.now)
    timer.disarm()
    timer.close()
  }
}
