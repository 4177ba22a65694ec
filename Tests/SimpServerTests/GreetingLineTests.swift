import SimpCore
import Testing

@testable import SimpServer

/// Whose handshake goes on, and when.
@Suite struct GreetingLineTests {
  private final class Rig {
    var line = GreetingLine()
    var now = Instant(nanoseconds: 1_000_000_000)
    /// What the rate says, and how often it was asked.
    var wait: Interval?
    private(set) var asked = 0

    private func take(_ now: Instant) -> Interval? {
      asked += 1
      return wait
    }

    func arrive(_ id: UInt64, from source: UInt8 = 1) -> Bool {
      line.arrive(id, from: PeerSource(.v4(192, 0, 2, source, port: 1)), now: now, take: take)
    }

    func next() -> UInt64? { line.next(now: now, take: take) }
  }

  /// However many come in a turn, one is answered in it, and one in each turn after it.
  @Test func oneIsAnsweredATurn() {
    let rig = Rig()
    let answered = (1...100 as ClosedRange<UInt64>).filter { rig.arrive($0) }
    #expect(answered == [1] && rig.line.due == rig.now)
    // The turn is taken.
    #expect(rig.next() == nil && rig.line.due == rig.now)
    for expected: UInt64 in 2...100 {
      rig.line.turnEnded()
      #expect(rig.next() == expected)
      #expect(rig.next() == nil)
      #expect(!rig.arrive(1000 + expected))
      rig.line.remove(1000 + expected)
    }
    rig.line.turnEnded()
    #expect(rig.next() == nil && rig.line.due == .never)
    #expect(rig.arrive(2000))
  }

  /// One that was chosen in a turn and is answered in the next takes that one, too.
  @Test func theTurnInWhichItIsAnsweredIsTaken() {
    let rig = Rig()
    for id: UInt64 in 1...4 { _ = rig.arrive(id) }
    rig.line.turnEnded()
    #expect(rig.next() == 2)
    rig.line.turnEnded()
    rig.line.begins()
    #expect(rig.next() == nil)
    #expect(!rig.arrive(5, from: 2))
    rig.line.turnEnded()
    #expect(rig.next() == 3)
  }

  /// The rate is asked for one that may go on, and for no other.
  @Test func whoIsOverTheRateWaitsForIt() {
    let rig = Rig()
    rig.wait = .milliseconds(2)
    let isAnswered = [rig.arrive(1), rig.arrive(2), rig.arrive(3, from: 2)]
    #expect(isAnswered == [false, false, false])
    #expect(rig.asked == 1 && rig.line.due == rig.now + .milliseconds(2))
    rig.now = rig.line.due
    #expect(rig.next() == nil && rig.line.due == rig.now + .milliseconds(2))
    rig.wait = nil
    // Of each source one, in turn.
    var order: [UInt64] = []
    for _ in 0..<3 {
      rig.line.turnEnded()
      if let id = rig.next() { order.append(id) }
    }
    #expect(order == [1, 3, 2] && rig.line.due == .never)
  }

  @Test func whoEndsLeavesTheLine() {
    let rig = Rig()
    for id: UInt64 in 1...3 { _ = rig.arrive(id) }
    rig.line.remove(2)
    rig.line.turnEnded()
    #expect(rig.next() == 3)
  }
}
