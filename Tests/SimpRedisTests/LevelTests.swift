import SimpCore
import SimpIO
import Testing

@testable import SimpRedis

/// Who is live: the interleavings of those who append and those who log in, spill, catch up and leave.
///
/// What all of them keep: something in the inbox and a live endpoint never stand together.
@Suite(.serialized) struct LevelTests {
  private func live(_ grant: SessionGrant) -> InboxAnswer { .live(node: "node-1", epoch: grant.epoch) }

  @Test func appendBeforeTheLogin() async throws {
    let rig = try await InboxRig()
    #expect(try await rig.append(1) == .added)
    let bob = try await rig.open()
    // The login itself makes nobody live.
    #expect(try await rig.append(2) == .added)
    #expect(try await rig.level(bob) == .catchingUp)
    #expect(try await rig.append(3) == .added)

    let entries = try await rig.read()
    #expect(try await rig.remove(Array(entries.prefix(2))) == InboxRemoval(removed: 2, left: 1))
    #expect(try await rig.level(bob) == .catchingUp)
    #expect(try await rig.append(4) == .added)
    #expect(try await rig.remove(rig.read()) == InboxRemoval(removed: 2, left: 0))
    // Empty, but the word has not been given back yet.
    #expect(try await rig.states() == ["catching"])
    #expect(try await rig.level(bob) == .live)
    #expect(try await rig.append(5) == live(bob))
    #expect(try await rig.read() == [])
    await rig.close()
  }

  @Test func appendAfterTheLogin() async throws {
    let rig = try await InboxRig()
    let bob = try await rig.open(epoch: (1 << 53) - 1)
    #expect(try await rig.level(bob) == .live)
    #expect(try await rig.append(1) == live(bob))
    // Also what would be a copy or find no room: a live device is asked first.
    var none = InboxLimits()
    none.messages = 0
    #expect(try await rig.append(1, limits: none) == live(bob))
    #expect(try await rig.append(1, knownDead: bob.epoch - 1, spilling: bob.epoch - 1) == live(bob))
    #expect(try await rig.rig.command(["EXISTS", "simp:inbox:{u:bob}", "simp:intake:{u:bob}"]) == .integer(0))
    #expect(try await rig.states() == ["live"])
    await rig.close()
  }

  /// The inbox was emptied, and something came in before the endpoint was written again.
  @Test func appendBetweenConfirmAndLevel() async throws {
    let rig = try await InboxRig()
    let bob = try await rig.open()
    #expect(try await rig.append(1) == .added)
    #expect(try await rig.level(bob) == .catchingUp)
    #expect(try await rig.remove(rig.read()) == InboxRemoval(removed: 1, left: 0))
    #expect(try await rig.append(2) == .added)
    #expect(try await rig.level(bob) == .catchingUp)
    #expect(try await rig.orders() == [2])
    await rig.close()
  }

  @Test func aSpillTakesTheWordInTheSameStep() async throws {
    let rig = try await InboxRig()
    let bob = try await rig.open()
    #expect(try await rig.level(bob) == .live)
    #expect(try await rig.append(1, spilling: bob.epoch) == .added)
    #expect(try await rig.states() == ["catching"])
    // Whoever comes now goes to the inbox, whether he knows of the spill or not.
    #expect(try await rig.append(2) == .added)
    #expect(try await rig.append(3, spilling: bob.epoch) == .added)
    // The spill against the session's own late writing of its endpoint: a new address, and Redis that was away.
    #expect(try await rig.level(bob) == .catchingUp)
    #expect(try await rig.orders() == [1, 2, 3])
    #expect(try await rig.remove(rig.read()) == InboxRemoval(removed: 3, left: 0))
    #expect(try await rig.level(bob) == .live)
    #expect(try await rig.append(4) == live(bob))
    await rig.close()
  }

  @Test func aSpillThatAddsNothingTakesNothing() async throws {
    let rig = try await InboxRig()
    let bob = try await rig.open()
    #expect(try await rig.append(1) == .added)
    #expect(try await rig.remove(rig.read()) == InboxRemoval(removed: 1, left: 0))
    #expect(try await rig.level(bob) == .live)
    #expect(try await rig.append(1, spilling: bob.epoch) == .duplicate)
    #expect(try await rig.states() == ["live"])
    var none = InboxLimits()
    none.messages = 0
    #expect(try await rig.append(2, spilling: bob.epoch, limits: none) == .full(.messages))
    #expect(try await rig.states() == ["live"])
    await rig.close()
  }

  /// The session has no room, and a login elsewhere ends it meanwhile.
  @Test func aSpillOfASessionThatWasEnded() async throws {
    let rig = try await InboxRig()
    let old = try await rig.open(0xA)
    #expect(try await rig.level(old) == .live)
    let new = try await rig.open(0xB)
    // Before the new one's endpoint stands there the old one spills: what it adds, the new one finds.
    #expect(try await rig.append(1, spilling: old.epoch) == .added)
    #expect(try await rig.level(new) == .catchingUp)
    #expect(try await rig.remove(rig.read()) == InboxRemoval(removed: 1, left: 0))
    #expect(try await rig.level(new) == .live)
    // After that the old one's spill goes to the new one.
    #expect(try await rig.append(2, spilling: old.epoch) == live(new))
    #expect(try await rig.states() == ["live"])
    await rig.close()
  }

  @Test func aDeadSessionIsPassedAndNotPassedAgain() async throws {
    let rig = try await InboxRig()
    let bob = try await rig.open()
    #expect(try await rig.level(bob) == .live)
    #expect(try await rig.append(1, knownDead: bob.epoch - 1) == live(bob))
    #expect(try await rig.append(1, knownDead: bob.epoch) == .added)
    // It is live no more for those, too, who do not know that it is dead; and if it is not dead, for itself.
    #expect(try await rig.append(2) == .added)
    #expect(try await rig.level(bob) == .catchingUp)
    #expect(try await rig.orders() == [1, 2])
    await rig.close()
  }

  @Test func anEndpointOlderThanTheSpillingOneIsDead() async throws {
    let rig = try await InboxRig()
    let old = try await rig.open(0xA)
    #expect(try await rig.level(old) == .live)
    let new = try await rig.open(0xB)
    #expect(try await rig.append(1, spilling: new.epoch) == .added)
    #expect(try await rig.states() == ["catching"])
    #expect(try await rig.level(new) == .catchingUp)
    await rig.close()
  }

  @Test func whoLeavesIsLiveNoMore() async throws {
    let rig = try await InboxRig()
    let bob = try await rig.open()
    #expect(try await rig.level(bob) == .live)
    #expect(try await rig.leave(bob))
    #expect(try await rig.append(1) == .added)
    // A late word of the session that left: it catches up, and nobody sends it anything past the inbox.
    #expect(try await rig.level(bob) == .catchingUp)
    #expect(try await rig.append(2) == .added)
    await rig.close()
  }

  /// What the live device had is never in the intake: only the device itself knows that copy.
  @Test func whatWentLiveIsNoCopyInTheInbox() async throws {
    let rig = try await InboxRig()
    let bob = try await rig.open()
    #expect(try await rig.level(bob) == .live)
    #expect(try await rig.append(1) == live(bob))
    #expect(try await rig.leave(bob))
    #expect(try await rig.append(1) == .added)
    #expect(try await rig.append(1) == .duplicate)
    await rig.close()
  }

  @Test func endpointsOfEveryForm() async throws {
    let rig = try await InboxRig()
    // From a version that knew no state, and what somebody else may have written.
    for value in ["", "epoch=9 node=n", "epoch=9 node=n state=", "state=live", "x state=live", "epoch=9 state=livex"] {
      #expect(try await rig.rig.command(["DEL", "simp:endpoints:{u:bob}", "simp:intake:{u:bob}"]).integer != nil)
      #expect(
        try await rig.rig.command(["HSET", "simp:endpoints:{u:bob}", "1", RedisArgument(value)]) == .integer(1))
      #expect(try await rig.append(1) == .added, "\(value)")
    }
    await rig.close()
  }
}
