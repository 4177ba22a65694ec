import SimpCore
import Testing

@testable import SimpServer

@Suite struct FairQueueTests {
  private func source(_ last: UInt8) -> PeerSource { PeerSource(.v4(192, 0, 2, last, port: 1)) }

  @Test func whoComesFromOneSourceIsServedInOrder() {
    var queue = FairQueue()
    for id in 1...10 as ClosedRange<UInt64> { queue.append(id, from: source(1)) }
    queue.remove(1)
    queue.remove(4)
    queue.remove(4)
    #expect((0..<9).map { _ in queue.popFirst() } == [2, 3, 5, 6, 7, 8, 9, 10, nil])
    #expect(queue.isEmpty)
  }

  @Test func sourcesTakeTurns() {
    var queue = FairQueue()
    for id in 1...100 as ClosedRange<UInt64> { queue.append(id, from: source(1)) }
    queue.append(101, from: source(2))
    queue.append(102, from: source(3))
    queue.append(103, from: source(2))
    #expect((0..<6).map { _ in queue.popFirst() } == [1, 101, 102, 2, 103, 3])
    #expect(queue.count == 97)
  }

  @Test func whoLeftTakesNoRoom() {
    var queue = FairQueue()
    queue.append(1, from: source(1))
    for id in 2...100_000 as ClosedRange<UInt64> {
      let from = source(UInt8(id % 7))
      queue.append(id, from: from)
      queue.remove(id)
    }
    #expect(queue.count == 1 && queue.storedCount < 1000)
    #expect(queue.popFirst() == 1 && queue.popFirst() == nil)
  }
}
