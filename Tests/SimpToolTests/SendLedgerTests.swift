import Testing

@testable import SimpTool

struct SendLedgerTests {
  @Test func isGoodOnceEachLineIsDeliveredOrStored() {
    var ledger = SendLedger()
    for number in 1...3 { #expect(ledger.read() == number) }
    ledger.noteDelivered(byUDP: true)
    ledger.noteDelivered(byUDP: false)
    #expect(!ledger.isGood)
    ledger.noteStored()
    #expect(ledger.isGood)
    #expect(ledger.summary == "2 of 3 lines delivered, 1 by udp, 1 by tcp, 1 stored for later")
  }

  @Test func namesWhatIsMissing() {
    var ledger = SendLedger()
    for _ in 1...20 { _ = ledger.read() }
    for line in [14, 3, 15, 16, 9] { ledger.noteFailed(line, line == 14 ? "first reason" : "second") }
    #expect(!ledger.isGood)
    #expect(ledger.complaint == "not delivered: 5 of 20 lines (3, 9, 14-16): first reason")
  }

  @Test func oneMessageIsNotCountedOut() {
    var ledger = SendLedger()
    ledger.noteFailed(ledger.read(), "why")
    #expect(ledger.complaint == "not delivered: why")
    #expect(ledger.summary == "0 of 1 line delivered")
  }

  @Test func manyPiecesAreCountedNotListed() {
    let numbers = (1...20).map { $0 * 2 }
    #expect(SendLedger.ranges(numbers) == "2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24 and 8 more")
    #expect(SendLedger.ranges(Array(1...1000)) == "1-1000")
    #expect(SendLedger.ranges([]) == "")
  }
}
