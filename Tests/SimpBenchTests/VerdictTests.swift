import SimpCore
import Testing

@testable import SimpBench

/// The checker against histories that are known to be bad.
struct VerdictTests {
  private static let run: UInt32 = 7

  /// A conversation of which `sent` messages were sent.
  private func check(sent: Int) -> ConversationCheck {
    var check = ConversationCheck(run: Self.run, sender: 1, conversation: 2, senderName: "alice")
    for _ in 0..<sent { _ = check.noteSent() }
    return check
  }

  private func text(
    _ number: UInt64, run: UInt32 = run, sender: UInt32 = 1, conversation: UInt32 = 2
  ) -> String {
    Payload(
      run: run, sender: sender, conversation: conversation, number: number, due: Instant(nanoseconds: 1), lag: 0
    ).text(size: 64)
  }

  private func verdict(sent: Int, arrived: [UInt64]) -> Verdict {
    var check = check(sent: sent)
    for number in arrived { _ = check.noteArrived(text(number), from: "alice") }
    return check.result
  }

  @Test func allInOrderIsGood() {
    let verdict = verdict(sent: 1000, arrived: Array(1...1000))
    #expect(verdict == Verdict(sent: 1000, delivered: 1000))
    #expect(verdict.isGood)
    #expect(verdict.words == "good: none lost, doubled or out of order")
  }

  @Test(arguments: [1, 64, 65, 100])
  func oneMissingIsLost(missing: UInt64) {
    let verdict = verdict(sent: 100, arrived: (1...100).filter { $0 != missing })
    #expect(verdict.lost == 1 && verdict.outOfOrder == 0 && verdict.duplicated == 0)
    #expect(!verdict.isGood)
    #expect(verdict.words == "1 lost")
  }

  @Test func oneTwiceIsDoubledAndNotOutOfOrder() {
    let verdict = verdict(sent: 5, arrived: [1, 2, 3, 2, 4, 5, 5])
    #expect(verdict == Verdict(sent: 5, delivered: 5, duplicated: 2))
    #expect(verdict.words == "2 doubled")
  }

  @Test func twoSwappedAreOutOfOrderOnce() {
    #expect(verdict(sent: 5, arrived: [1, 3, 2, 4, 5]) == Verdict(sent: 5, delivered: 5, outOfOrder: 1))
    // One far too early makes all that follow late.
    #expect(verdict(sent: 5, arrived: [5, 1, 2, 3, 4]).outOfOrder == 4)
  }

  @Test func aChangedTextIsCorruptAndStaysLost() {
    var check = check(sent: 1)
    var bytes = Array(text(1).utf8)
    bytes[60] ^= 1
    #expect(check.noteArrived(String(decoding: bytes, as: UTF8.self), from: "alice") == nil)
    #expect(check.noteArrived(nil, from: "alice") == nil)
    #expect(check.result == Verdict(sent: 1, corrupt: 2))
    #expect(check.result.words == "1 lost, 2 corrupt")
  }

  @Test func whatBelongsElsewhereIsMisdirected() {
    var check = check(sent: 3)
    for (text, name) in [
      (text(1, run: 8), "alice"), (text(1, sender: 2), "alice"), (text(1, conversation: 3), "alice"),
      (text(1), "mallory"), (text(4), "alice"), (text(0), "alice"),
    ] {
      #expect(check.noteArrived(text, from: name) == nil)
    }
    #expect(check.result == Verdict(sent: 3, misdirected: 6))
  }

  @Test func aMessageTakenBackIsNotMissed() {
    var check = check(sent: 2)
    check.takeBack()
    _ = check.noteArrived(text(1), from: "alice")
    #expect(check.result == Verdict(sent: 1, delivered: 1))
    #expect(check.noteSent() == 2, "its number is free again")
    #expect(check.underWay == 1)
  }

  @Test func verdictsAddUp() {
    var sum = Verdict(sent: 10, delivered: 9)
    sum.add(Verdict(sent: 5, delivered: 5, duplicated: 1, outOfOrder: 2, corrupt: 3, misdirected: 4))
    #expect(sum == Verdict(sent: 15, delivered: 14, duplicated: 1, outOfOrder: 2, corrupt: 3, misdirected: 4))
    #expect(sum.lost == 1)
  }
}
