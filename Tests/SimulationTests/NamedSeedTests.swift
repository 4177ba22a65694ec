import SimpCore
import Testing

/// Runs that are kept by name: each goes wrong at once when the part it is named after is taken out
/// (`Tests/Mutants/run` does that), or went wrong once.
@Suite struct NamedSeedTests {
  private func run(_ scenario: Scenario, seed: UInt64) {
    let run = ScenarioRun(scenario, seed: seed)
    print("\(scenario.name), seed \(seed):\n\(run.network.text)")
    for failure in run.failures { Issue.record("\(scenario.name), seed \(seed): \(failure)") }
  }

  private func named(_ name: String) throws -> Scenario { try #require(Scenario.all.first { $0.name == name }) }

  /// Messages are retransmitted although they arrived: their receipts were lost.
  @Test func duplicateDetection() { run(.loss20, seed: 1) }

  /// A device that was away for a while waits for nothing that was finished meanwhile.
  @Test func floor() { run(.twoDevices, seed: 2) }

  /// Each datagram counts once, though every second one arrives twice.
  @Test func replayWindow() { run(.duplication, seed: 1) }

  /// Everything recorded comes again ten times, across changes of keys and new logins.
  @Test func recordings() { run(.keyChanges, seed: 1) }

  /// No key seals one packet number twice: sessions end, a server dies and comes back, and keys are new each time.
  @Test func noncesAreUsedOnce() { run(.serverKilled, seed: 1) }

  @Test func escalation() { run(.udpStops, seed: 1) }

  /// Later messages overtake lost ones all the time, and none is shown before its turn.
  @Test func waitForAGap() { run(.everything, seed: 1) }

  /// Messages are refused for want of room, by UDP, while receipts are lost: none of them is called ACCEPTED.
  @Test func honestAccepted() { run(.slow, seed: 2) }

  /// What was refused comes before what follows it.
  @Test func deferral() { run(.slow, seed: 1) }

  /// Forged addresses get three times what they sent, and are never taken for the client's own.
  @Test func amplificationLimit() { run(.forged, seed: 1) }
  @Test func pathProof() { run(.forged, seed: 3) }

  /// A receipt of a former copy counted for the message that came back under its key.
  @Test func aMessageComesBackUnderItsKey() throws { run(try named("sender killed, outbox kept"), seed: 2) }

  /// The room was full of messages that could not be shown before the one that found no room.
  @Test(arguments: [18, 21, 29] as [UInt64]) func aGapInAFullRoom(seed: UInt64) throws {
    run(try named("application sleeps 3 s of each 4 s"), seed: seed)
  }

  private func runWithInboxes(_ seed: UInt64) { run(.drawnWithInboxes(seed), seed: seed) }

  /// What finds no room goes into the inbox, and everything behind it as well.
  @Test func whatIsSpilledGoesFirst() throws {
    run(try named("slow application, its room runs out, with inboxes"), seed: 1)
  }

  /// The store said that the inbox is empty while a message was on its way there.
  @Test func liveMeansThatNothingIsOnItsWay() { runWithInboxes(1514) }

  /// A session becomes live, more comes meanwhile than it has room for, and that waits for what waits.
  @Test func theirQueueIsFullAsASessionBecomesLive() { runWithInboxes(4886) }

  /// Outcomes of several conversations in one, the first of which nothing is left of.
  @Test func anOutcomeOfNobody() { runWithInboxes(874) }

  /// Whatever waited for room was sent for a handful to be taken, over and over: 1000 s for 800 messages.
  @Test func littleRoomAtTheEndOfALongRoad() {
    let run = ScenarioRun(.drawn(4584), seed: 4584)
    for failure in run.failures { Issue.record("seed 4584: \(failure)") }
    #expect(run.retransmissions < 2 * UInt64(run.messages), "\(run.retransmissions) sent again")
  }

  /// All of a batch that had waited for room was finished before its turn, and the next never had one.
  @Test(arguments: [604, 609, 750, 982] as [UInt64])
  func aBatchIsFinishedBeforeItsTurn(seed: UInt64) { run(.drawn(seed), seed: seed) }

  /// TCP stood still for longer than a login may take, so that clients gave it up and tried once more.
  @Test(arguments: [2115, 4782, 5486, 10_112, 12_297, 28_605, 36_625, 37_300, 37_644, 38_151, 38_952] as [UInt64])
  func aLoginIsHeldUp(seed: UInt64) { run(.drawn(seed), seed: seed) }

  /// A process stood still while it stood still, and read meanwhile.
  @Test func aSleepWithinASleep() { run(.drawn(43_673), seed: 43_673) }

  /// More flew than the window that its owner began with when it moved.
  @Test func aMoveWithAFullWindow() { run(.drawn(43_813), seed: 43_813) }

  /// A copy of what was finished came when its recipient was another process, which began with it.
  @Test(arguments: [6174, 15_069, 23_115, 23_318, 34_494] as [UInt64])
  func aCopyOfWhatIsFinished(seed: UInt64) { run(.drawn(seed), seed: seed) }

  /// Each copy from a forged address made the way to the client unknown, and its window full.
  @Test(arguments: [1, 83, 110, 147] as [UInt64])
  func theWayBackIsKnown(seed: UInt64) { run(.forged, seed: seed) }

  /// One datagram in all is lost, each of the first in turn: proofs, the first message, the first receipt.
  @Test(arguments: 0..<16) func oneDatagramIsLost(index: Int) {
    for isUp in [true, false] {
      var scenario = Scenario.clean
      scenario.name = "datagram \(index) \(isUp ? "up" : "down") is lost"
      if isUp { scenario.up.dropped = [index] } else { scenario.down.dropped = [index] }
      scenario.flows = [
        Flow(from: "alice", to: "bob", count: 20, pause: .milliseconds(40)),
        Flow(from: "bob", to: "alice", count: 20, pause: .milliseconds(40)),
      ]
      let run = ScenarioRun(scenario, seed: 5)
      for failure in run.failures { Issue.record("\(scenario.name): \(failure)") }
      #expect((isUp ? run.network.up : run.network.down).lost == 2, "one of alice's and one of bob's")
      // What is too large for a datagram goes by TCP; all else by UDP, whatever single datagram is lost.
      #expect(run.firstByUDP >= 36, "\(scenario.name): \(run.firstByUDP) of 40 by UDP")
    }
  }
}
