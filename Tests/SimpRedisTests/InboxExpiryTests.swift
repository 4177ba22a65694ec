import SimpCore
import SimpIO
import Testing

@testable import SimpRedis

/// What is over, and who has such a thing.
@Suite(.serialized) struct InboxExpiryTests {
  @Test func whatIsOverAtTheHead() async throws {
    let rig = try await InboxRig()
    for (order, expires) in [(1, 100), (2, 200), (3, 300), (4, 150)] as [(UInt64, UInt64)] {
      #expect(try await rig.append(order, expires: expires) == .added)
    }
    #expect(try await rig.expire(now: 99) == [])
    #expect(try await rig.expire(now: 100) == [1])
    #expect(try await rig.expire(now: 200) == [1, 2])
    #expect(try await rig.expire(now: 200, limit: 1) == [1])
    // It removes nothing.
    #expect(try await rig.orders() == [1, 2, 3, 4])

    let entries = try await rig.read()
    #expect(try await rig.remove(Array(entries.prefix(2))) == InboxRemoval(removed: 2, left: 2))
    // The fourth is over, but stands behind one that is not.
    #expect(try await rig.expire(now: 200) == [])
    #expect(try await rig.expire(now: 300) == [3, 4])
    #expect(try await rig.expire(now: 1000, user: "nobody") == [])
    await rig.close()
  }

  @Test func usersAreFoundByTheEarliestTime() async throws {
    let rig = try await InboxRig()
    #expect(try await rig.append(1, expires: 300, to: "bob") == .added)
    #expect(try await rig.append(1, expires: 100, to: "carol") == .added)
    #expect(try await rig.append(1, expires: (1 << 53) - 1, to: "dave") == .added)
    // Neither a later message nor a copy puts it off.
    #expect(try await rig.append(2, expires: 400, to: "bob") == .added)
    #expect(try await rig.append(1, expires: 500, to: "carol") == .duplicate)
    #expect(try await rig.expiring(before: 99) == [])
    #expect(try await rig.expiring(before: 100) == ["carol"])
    #expect(try await rig.expiring(before: 300) == ["carol", "bob"])
    #expect(try await rig.expiring(before: 300, limit: 1) == ["carol"])
    #expect(try await rig.expiring(before: (1 << 53) - 2) == ["carol", "bob"])
    #expect(try await rig.expiring(before: (1 << 53) - 1) == ["carol", "bob", "dave"])
    await rig.close()
  }

  @Test func whoWasLookedAtIsNotNamedAgain() async throws {
    let rig = try await InboxRig()
    _ = try await rig.open()
    #expect(try await rig.append(1, expires: 100) == .added)
    #expect(try await rig.append(2, expires: 200) == .added)
    // Named until nothing is over any more: whoever looks may die on the way.
    #expect(try await rig.expire(now: 150) == [1])
    #expect(try await rig.expiring(before: 150) == ["bob"])
    #expect(try await rig.remove([rig.read()[0]]) == InboxRemoval(removed: 1, left: 1))
    #expect(try await rig.expiring(before: 150) == ["bob"])
    #expect(try await rig.expire(now: 150) == [])
    #expect(try await rig.expiring(before: 199) == [])
    #expect(try await rig.expiring(before: 200) == ["bob"])

    // The device came and took it: the index finds that out when it looks.
    #expect(try await rig.remove(rig.read()) == InboxRemoval(removed: 1, left: 0))
    #expect(try await rig.expiring(before: 200) == ["bob"])
    #expect(try await rig.expire(now: 200) == [])
    #expect(try await rig.rig.command(["EXISTS", "simp:expiry"]) == .integer(0))
    await rig.close()
  }

  /// Between the look into an empty inbox and the word that it is empty something comes in.
  @Test func whatComesInMeanwhileIsNotForgotten() async throws {
    let rig = try await InboxRig()
    _ = try await rig.open()
    #expect(try await rig.append(1, expires: 100) == .added)
    #expect(try await rig.remove(rig.read()) == InboxRemoval(removed: 1, left: 0))
    let answers: [String] = try await rig.rig.wait { redis, done in
      var answers: [String] = []
      rig.inbox.expire(user: "bob", now: 100, limit: 1) { result in
        answers.append("expired \((try? result.get())?.count ?? -1)")
        if answers.count == 2 { done(answers) }
      }
      // Redis answers in order: this is behind the first look, and before all that follows from it.
      rig.inbox.append(
        to: "bob",
        message: InboxMessage(from: "alice", device: 1, order: 2, floor: 1, payload: [], expires: 170),
        knownDead: 0, spilling: 0, limits: InboxLimits()
      ) { result in
        answers.append((try? result.get().withoutName) == .added ? "stored" : "not stored")
        if answers.count == 2 { done(answers) }
      }
    }
    #expect(answers == ["stored", "expired 0"])
    #expect(try await rig.expiring(before: 169) == [])
    #expect(try await rig.expiring(before: 170) == ["bob"])
    #expect(try await rig.expire(now: 170) == [2])
    await rig.close()
  }

  /// Someone who was told nothing offers it again, and so the index is mended.
  @Test func aCopyIsNotedAgain() async throws {
    let rig = try await InboxRig()
    #expect(try await rig.append(1, expires: 100) == .added)
    #expect(try await rig.rig.command(["DEL", "simp:expiry"]) == .integer(1))
    #expect(try await rig.append(1, expires: 100) == .duplicate)
    #expect(try await rig.expiring(before: 100) == ["bob"])
    await rig.close()
  }

  @Test func aMessageIsOnlyStoredWhenItIsNoted() async throws {
    let rig = try await InboxRig()
    #expect(try await rig.rig.command(["SET", "simp:expiry", "x"]) == .status("OK"))
    for _ in 1...2 {
      let error = await #expect(throws: RedisError.self) { try await rig.append(1) }
      #expect(error?.code == .server)
    }
    for action in [
      { try await rig.expire(now: 1) as Any }, { try await rig.expire(now: 1, user: "nobody") as Any },
      { try await rig.expiring(before: 1) as Any },
    ] {
      let error = await #expect(throws: RedisError.self) { try await action() }
      #expect(error?.code == .server)
    }
    #expect(try await rig.rig.command(["DEL", "simp:expiry"]) == .integer(1))
    #expect(try await rig.append(1) == .duplicate)
    #expect(try await rig.expiring(before: 5000) == ["bob"])
    await rig.close()
  }
}
