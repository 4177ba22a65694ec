import SimpCore
import Testing

@testable import SimpBench

struct MeshCheckTests {
  private static let names = ["mesh-a", "mesh-b", "mesh-c"]

  private func text(_ number: UInt64, from sender: UInt32, to recipient: UInt32, run: UInt32 = 7) -> String {
    Payload(
      run: run, sender: sender, conversation: recipient, number: number, due: Instant(nanoseconds: 5), lag: 0
    ).text(size: 64)
  }

  /// Three messages from `a` to `b` are under way.
  private func check() -> MeshCheck {
    var check = MeshCheck(run: 7, names: Self.names)
    #expect((1...3).map { _ in check.noteSent(from: 0, to: 1) } == [1, 2, 3])
    #expect(check.noteSent(from: 1, to: 0) == 1, "the other way is a conversation of its own")
    return check
  }

  @Test func whatArrivesOnceAndInOrderIsGood() {
    var check = check()
    for number: UInt64 in 1...3 {
      #expect(check.noteArrived(text(number, from: 0, to: 1), from: "mesh-a", at: 1)?.number == number)
    }
    #expect(check.underWay == 1)
    #expect(check.noteArrived(text(1, from: 1, to: 0), from: "mesh-b", at: 0) != nil)
    #expect(check.result == Verdict(sent: 4, delivered: 4))
  }

  @Test func lostDoubledAndOutOfOrderAreCounted() {
    var check = check()
    for number: UInt64 in [1, 3, 3, 1, 2, 2] {
      _ = check.noteArrived(text(number, from: 0, to: 1), from: "mesh-a", at: 1)
    }
    #expect(check.result == Verdict(sent: 4, delivered: 3, duplicated: 3, outOfOrder: 1))
    #expect(check.result.lost == 1)
  }

  @Test func whatIsLateInALongRowClosesIt() {
    var check = MeshCheck(run: 7, names: Self.names)
    for _ in 1...200 { _ = check.noteSent(from: 2, to: 2) }
    for number: UInt64 in [UInt64](2...200).shuffled() + [1] {
      #expect(check.noteArrived(text(number, from: 2, to: 2), from: "mesh-c", at: 2) != nil)
    }
    #expect(check.underWay == 0)
    for number: UInt64 in 1...200 {
      #expect(check.noteArrived(text(number, from: 2, to: 2), from: "mesh-c", at: 2) == nil)
    }
    #expect(check.result.duplicated == 200)
  }

  @Test func whatDoesNotBelongHereIsSeen() {
    var check = check()
    #expect(check.noteArrived(text(4, from: 0, to: 1), from: "mesh-a", at: 1) == nil, "never sent")
    #expect(check.noteArrived(text(0, from: 0, to: 1), from: "mesh-a", at: 1) == nil, "no number")
    #expect(check.noteArrived(text(1, from: 0, to: 1), from: "mesh-b", at: 1) == nil, "another sender's name")
    #expect(check.noteArrived(text(1, from: 0, to: 1), from: "mesh-a", at: 2) == nil, "another recipient")
    #expect(check.noteArrived(text(1, from: 0, to: 1, run: 8), from: "mesh-a", at: 1) == nil, "another run")
    #expect(check.noteArrived(text(1, from: 9, to: 1), from: "mesh-a", at: 1) == nil, "nobody")
    #expect(check.result.misdirected == 6)
    #expect(check.noteArrived("hello", from: "mesh-a", at: 1) == nil)
    #expect(check.result.corrupt == 1 && check.result.delivered == 0)
  }
}
