import Glibc
import ProgramRig
import SimpCore
import Testing

@testable import SimpStore

/// kill -9 at random instants. How often: SIMP_STORE_KILLS, 12 unless set.
@Suite(.timeLimit(.minutes(10)))
struct StoreKillTests {
  private static let kills: Int = {
    // SAFETY: no test changes the environment; the text is copied at once.
    let text = unsafe getenv("SIMP_STORE_KILLS").map { unsafe String(cString: $0) }
    return text.flatMap { Int($0) } ?? 12
  }()

  /// Lets a program work for a random while after its first line, then kills it.
  private func kill(_ program: RunningProgram, after word: String) async throws {
    try await program.wait(for: word)
    try await Task.sleep(for: .microseconds(Int.random(in: 0...60_000)))
    program.signal(SIGKILL)
    #expect(try await program.end() == 128 + SIGKILL, "\(program.errorOutput)")
  }

  @Test func whatWasKeptIsThere() async throws {
    let place = try StorePlace()
    var last: UInt64 = 0
    for _ in 0..<Self.kills {
      let rig = try await place.rig("send")
      try await kill(rig, after: "kept")
      let kept = try #require(rig.numbers("kept").last)
      let outbox = try place.open().contents.outbox
      // Each in its place, none twice, all up to the last that was told of; of the batch under way all or nothing.
      let next = try #require(outbox.nextOrders.first?.order)
      #expect(next > kept && next <= kept + 9 && kept > last)
      #expect(outbox.counter == next - 1)
      #expect(outbox.messages.allSatisfy { $0.content.text == "\($0.order)" && $0.counter == $0.order })
      let orders = outbox.messages.map(\.order)
      #expect(Set(orders).count == orders.count && orders == orders.sorted() && orders.last == next - 1)
      #expect(orders.suffix(80) == ((next - min(80, next - 1))..<next)[...].map { $0 }[...])
      last = kept
    }
  }

  @Test func whatWasTakenIsNotShownAgain() async throws {
    let place = try StorePlace()
    var shown: Set<UInt64> = []
    for _ in 0..<Self.kills {
      let rig = try await place.rig("take", "automatic")
      try await kill(rig, after: "got")
      let got = rig.numbers("got")
      #expect(shown.isDisjoint(with: got) && Set(got).count == got.count)
      #expect(got == got.sorted())
      shown.formUnion(got)
      let contents = try place.open().contents
      let waiting = contents.received.map(\.message.order)
      #expect(contents.received.allSatisfy { !$0.isRedelivered })
      #expect(shown.isDisjoint(with: waiting) && waiting == waiting.sorted())
      // What came is either shown or waits, but for the one that was being handed over.
      let end = try #require(contents.marks.first?.map.end)
      let missing = Set(1..<end).subtracting(shown).subtracting(waiting)
      #expect(missing.count <= 1)
      shown.formUnion(missing)
    }
  }

  @Test func whatWasNotAcknowledgedComesBackMarked() async throws {
    let place = try StorePlace()
    var got: Set<UInt64> = []
    var done: Set<UInt64> = []
    for _ in 0..<Self.kills {
      let rig = try await place.rig("take", "manual")
      try await kill(rig, after: "done")
      got.formUnion(rig.numbers("got"))
      #expect(done.isDisjoint(with: rig.numbers("done")))
      done.formUnion(rig.numbers("done"))
      let contents = try place.open().contents
      let waiting = contents.received
      // The one under way may have been noted, and not told of.
      let marked = Set(waiting.filter(\.isRedelivered).map(\.message.order))
      #expect(marked.subtracting(got).count <= 1 && marked.count <= 2)
      #expect(done.isDisjoint(with: waiting.map(\.message.order)))
      let end = try #require(contents.marks.first?.map.end)
      let missing = Set(1..<end).subtracting(done).subtracting(waiting.map(\.message.order))
      #expect(missing.count <= 1 && missing.isSubset(of: got))
      done.formUnion(missing)
      #expect(got.subtracting(done).isSubset(of: marked))
    }
  }
}
