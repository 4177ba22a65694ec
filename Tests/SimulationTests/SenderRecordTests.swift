import SimpCore
import Testing

@testable import SimpServer

/// What a session keeps of one sender's pending messages.
struct SenderRecordTests {
  private func record(_ orders: some Sequence<UInt64>) -> SessionEntry.SenderRecord {
    var record = SessionEntry.SenderRecord(
      sender: SessionEntry.SenderDevice(user: "alice", device: 1), origin: SessionAddress(reactor: 0, session: 1))
    for order in orders { record.insert(order) }
    return record
  }

  /// The window goes along with a sender that never pauses: what counts is what is pending, not what once was.
  @Test func theWindowMovesWithASteadyFlow() {
    var record = record(1...500)
    for order: UInt64 in 501...(3 * WireLimits.orderWindow) {
      #expect(record.spansWindow(with: order))
      record.insert(order)
      record.remove(order - 500)
    }
    #expect(record.pending.count == 500)
  }

  @Test func orderOutsideTheWindowIsSeenOnBothSides() {
    let record = record([20_000, 20_100])
    #expect(record.spansWindow(with: 20_000 + WireLimits.orderWindow - 1))
    #expect(!record.spansWindow(with: 20_000 + WireLimits.orderWindow))
    #expect(record.spansWindow(with: 20_100 - WireLimits.orderWindow + 1))
    #expect(!record.spansWindow(with: 20_100 - WireLimits.orderWindow))
  }

  @Test func keepsOrdersSortedAndOnce() {
    var record = record([5, 1, 9, 5, 3, 9, 1, 7])
    #expect(record.pending == [1, 3, 5, 7, 9])
    record.remove(4)
    record.remove(5)
    record.remove(10)
    #expect(record.pending == [1, 3, 7, 9])
  }

  @Test func findsWhatAnOutcomeSpeaksOf() {
    let record = record([1, 3, 7, 9])
    #expect(Array(record.pending(in: 2...7)) == [3, 7])
    #expect(Array(record.pending(in: 0...(1 << 40))) == [1, 3, 7, 9])
    #expect(record.pending(in: 4...6).isEmpty)
    #expect(record.pending(in: 10...20).isEmpty)
  }
}
