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

  /// The rate is asked for one that may go on, and for no other.
  @Test func whoIsOverTheRateWaitsForIt() {
    let rig = Rig()
    rig.wait = .milliseconds(2)
    let isAnswered = [rig.arrive(1), rig.arrive(2), rig.arrive(3, from: 2)]
    #expect(isAnswered == [false, false, false])
    #expect(rig.asked == 1 && rig.line.due == rig.now + .milliseconds(2))
    rig.now = rig.line.due
    #expect(rig.next() == nil && rig.line.due == rig.now + .milliseconds(2))
    (rig.wait, rig.now) = (nil, rig.line.due)
    // Of each source one, in turn.
    var order: [UInt64] = []
    for _ in 0..<3 {
      #expect(rig.line.due == rig.now)
      if let id = rig.next() { order.append(id) }
    }
    #expect(order == [1, 3, 2] && rig.line.due == .never)
  }

  /// Nobody overtakes those who wait, even when the rate has one again.
  @Test func whoComesLaterWaitsBehindThem() {
    let rig = Rig()
    rig.wait = .milliseconds(2)
    _ = rig.arrive(1)
    rig.wait = nil
    #expect(!rig.arrive(2))
    #expect(rig.next() == 1 && rig.next() == 2)
    #expect(rig.arrive(3))
  }

  @Test func whoEndsLeavesTheLine() {
    let rig = Rig()
    rig.wait = .milliseconds(2)
    for id: UInt64 in 1...3 { _ = rig.arrive(id) }
    rig.line.remove(1)
    rig.wait = nil
    #expect(rig.next() == 2)
    rig.line.remove(3)
    #expect(rig.next() == nil && rig.line.due == .never)
  }
}
