import Glibc
import SimpCore
import SimpIO
import Testing

@testable import SimpRedis

/// Names that may not become part of a key, keys that hold what no script of ours writes, and a Redis that is full,
/// killed, or has forgotten.
@Suite(.serialized) struct InboxFaultTests {
  private func code(_ action: () async throws -> Any) async -> RedisError.Code? {
    do {
      let value = try await action()
      Issue.record("answered \(value)")
      return nil
    } catch {
      return (error as? RedisError)?.code
    }
  }

  @Test(arguments: ["", "b b", "bob}", "{u:x}", "a\r\nb", String(repeating: "x", count: 65), "ü", "a\0", "a:b"])
  func namesOutsideTheGrammarReachNoKey(name: String) async throws {
    let rig = try await InboxRig()
    let id = InboxEntry(
      id: .init(milliseconds: 1, sequence: 1), from: "", device: 0, order: 0, expires: 0, payload: [])
    #expect(await code { try await rig.append(1, to: name) } == .invalidName)
    #expect(await code { try await rig.append(1, from: name) } == .invalidName)
    #expect(await code { try await rig.read(user: name) } == .invalidName)
    #expect(await code { try await rig.remove([id], user: name) } == .invalidName)
    #expect(await code { try await rig.expire(now: 1, user: name) } == .invalidName)
    #expect(try await rig.rig.command(["DBSIZE"]) == .integer(0))

    let marks = try await MarkRig()
    #expect(await code { try await marks.mark(.read, [1...1], sender: name) } == .invalidName)
    #expect(await code { try await marks.mark(.read, [1...1], recipient: name) } == .invalidName)
    #expect(await code { try await marks.marks(sender: name) } == .invalidName)
    #expect(await code { try await marks.confirmMarks(.read, [1...1], sender: name) } == .invalidName)
    #expect(await code { try await marks.confirmMarks(.read, [1...1], recipient: name) } == .invalidName)
    #expect(try await marks.rig.command(["DBSIZE"]) == .integer(0))
    await marks.close()
    await rig.close()
  }

  @Test func scriptsThatRedisForgot() async throws {
    let rig = try await InboxRig()
    let bob = try await rig.open()
    func forget() async throws { #expect(try await rig.rig.command(["SCRIPT", "FLUSH"]) == .status("OK")) }
    try await forget()
    #expect(try await rig.append(1...50).allSatisfy { $0 == .added })
    try await forget()
    let entries = try await rig.read()
    #expect(entries.map(\.order) == Array(1...50))
    try await forget()
    #expect(try await rig.level(bob) == .catchingUp)
    try await forget()
    #expect(try await rig.remove(entries) == InboxRemoval(removed: 50, left: 0))
    await rig.close()

    let marks = try await MarkRig()
    for action in [
      { try await marks.mark(.read, [1...2]) == 0 }, { try await marks.marks().count == 1 },
      { try await marks.confirmMarks(.read, [1...1]) == 1 },
    ] {
      #expect(try await marks.rig.command(["SCRIPT", "FLUSH"]) == .status("OK"))
      #expect(try await action())
    }
    await marks.close()
  }

  /// Each of these keys as if somebody else had written it. Nothing is done then, and said so.
  @Test(arguments: [
    (["SET", "simp:inbox:{u:bob}", "x"], RedisError.Code.server),
    (["SET", "simp:intake:{u:bob}", "x"], .server), (["SET", "simp:endpoints:{u:bob}", "x"], .server),
    (["HSET", "simp:intake:{u:bob}", "d:alice 1", "x"], .server),
    (["HSET", "simp:intake:{u:bob}", "messages", "many"], .server),
    (["HSET", "simp:endpoints:{u:bob}", "1", "epoch=9 state=live"], .unexpectedReply),
  ])
  func keysOfSomebodyElse(words: [String], expected: RedisError.Code) async throws {
    let rig = try await InboxRig()
    #expect(try await rig.rig.command(words.map { RedisArgument($0) }) != .null)
    #expect(await code { try await rig.append(1) } == expected)
    #expect(try await rig.rig.command(["HEXISTS", "simp:intake:{u:bob}", "bytes"]) != .integer(1))
    #expect(try await rig.rig.command(["DEL", RedisArgument(words[1])]) == .integer(1))
    #expect(try await rig.append(1) == .added)
    await rig.close()
  }

  @Test(arguments: [
    [], ["f", "alice"], ["f", "alice", "d", "1", "o", "1", "x", "1", "q", ""],
    ["f", "a b", "d", "1", "o", "1", "x", "1", "p", ""], ["f", "a", "d", "16777216", "o", "1", "x", "1", "p", ""],
    ["f", "a", "d", "1", "o", "1099511627776", "x", "1", "p", ""], ["f", "a", "d", "1", "o", "+1", "x", "1", "p", ""],
    ["f", "a", "d", "1", "o", "1", "x", "", "p", ""], ["f", "a", "d", "1", "o", "1", "x", "1", "p", "", "z", "1"],
  ])
  func entriesOfSomebodyElse(fields: [String]) async throws {
    let rig = try await InboxRig()
    #expect(try await rig.append(1) == .added)
    let entry = (fields.isEmpty ? ["", ""] : fields).map { RedisArgument($0) }
    #expect(try await rig.rig.command(["XADD", "simp:inbox:{u:bob}", "*"] + entry).text != nil)
    #expect(await code { try await rig.read() } == .unexpectedReply)
    #expect(await code { try await rig.expire(now: 1) } == .unexpectedReply)
    #expect(try await rig.read(count: 1).map(\.order) == [1])
    await rig.close()
  }

  @Test func marksOfSomebodyElse() async throws {
    let rig = try await MarkRig()
    let key: RedisArgument = "simp:marks:{u:alice}"
    for (field, value) in [
      ("1 bob", "1-1"), ("1 bob gone", "1-1"), ("1 b}b read", "1-1"), ("1 bob read x", "1-1"), ("1 bob read", ""),
      ("1 bob read", "x"), ("1 bob read", "2-1"), ("1 bob read", "1-1,"), ("1 bob read", "1-3,3-4"),
      ("1 bob read", "1-3,4-5"), ("1 bob read", "5-6,1-2"), ("1 bob read", "1-1099511627776"), ("1 bob read", "-1-2"),
    ] {
      #expect(try await rig.rig.command(["DEL", key]).integer != nil)
      #expect(try await rig.rig.command(["HSET", key, RedisArgument(field), RedisArgument(value)]) == .integer(1))
      #expect(await code { try await rig.marks() } == .unexpectedReply, "\(field): \(value)")
    }
    #expect(try await rig.rig.command(["SET", key, "x"]) == .status("OK"))
    #expect(await code { try await rig.marks() } == .server)
    #expect(await code { try await rig.mark(.read, [1...1]) } == .server)
    #expect(await code { try await rig.confirmMarks(.read, [1...1]) } == .server)
    await rig.close()
  }

  /// A full Redis takes nothing, all of it or none, and still lets go of what it holds.
  @Test func aFullRedis() async throws {
    let rig = try await InboxRig()
    let bob = try await rig.open()
    #expect(try await rig.append(1...3).allSatisfy { $0 == .added })
    let entries = try await rig.read()
    #expect(try await rig.remove([entries[0]]) == InboxRemoval(removed: 1, left: 2))
    let before = try await rig.rig.hash("simp:intake:{u:bob}")
    func limit(_ bytes: RedisArgument) async throws {
      #expect(try await rig.rig.command(["CONFIG", "SET", "maxmemory", bytes]) == .status("OK"))
    }
    try await limit("1")
    #expect(await code { try await rig.append(4) } == .server)
    // One of a new device, and one of an idle device.
    #expect(await code { try await rig.append(1, from: "carol") } == .server)
    #expect(try await rig.rig.hash("simp:intake:{u:bob}") == before)
    #expect(try await rig.orders() == [2, 3])
    #expect(try await rig.remove([entries[1]]) == InboxRemoval(removed: 1, left: 1))
    #expect(try await rig.remove([entries[2]]) == InboxRemoval(removed: 1, left: 0))
    #expect(try await rig.expire(now: 1) == [])
    // Else nobody could come and take out what fills it.
    #expect(try await rig.level(bob) == .live)
    let next = try await rig.open(0xB)
    #expect(try await rig.level(next) == .live && next.epoch > bob.epoch)
    // The spill is not half done either.
    #expect(await code { try await rig.append(4, spilling: next.epoch) } == .server)
    #expect(try await rig.states() == ["live"])
    try await limit("0")
    #expect(try await rig.append(4, spilling: next.epoch) == .added)
    #expect(try await rig.states() == ["catching"])
    await rig.close()

    let marks = try await MarkRig()
    #expect(try await marks.mark(.delivered, [1...9]) == 0)
    #expect(try await marks.rig.command(["CONFIG", "SET", "maxmemory", "1"]) == .status("OK"))
    #expect(await code { try await marks.mark(.read, [5...6]) } == .server)
    #expect(try await marks.confirmMarks(.delivered, [5...6]) == 2)
    let left = try await marks.marks()
    #expect(left == [MarkSet(recipient: "bob", state: .delivered, orders: [1...4, 7...9])])
    await marks.close()
  }

  @Test func aRedisThatLostItsData() async throws {
    let rig = try await InboxRig()
    let bob = try await rig.open()
    #expect(try await rig.append(1...3).allSatisfy { $0 == .added })
    let entries = try await rig.read()
    #expect(try await rig.rig.command(["FLUSHALL"]) == .status("OK"))
    #expect(try await rig.remove(entries) == InboxRemoval(removed: 0, left: 0))
    // Within one millisecond the new entry could have the name of an old one.
    let last = try #require(entries.last).id.milliseconds
    while try await rig.milliseconds() <= last {}
    #expect(try await rig.append(2) == .added)
    #expect(try await rig.level(bob) == .catchingUp)
    #expect(try await rig.remove(entries) == InboxRemoval(removed: 0, left: 1))
    await rig.close()
  }

  /// Redis dies with messages under way, some done and some not; all are offered again.
  @Test func nothingIsLostOrDoubledWhenRedisIsKilled() async throws {
    let rig = try await InboxRig(options: ["--appendfsync", "always"])
    _ = try await rig.open()
    let all: ClosedRange<UInt64> = 1...600
    var stored: Set<UInt64> = []
    for round in 1...3 {
      let answers: [UInt64: Bool] = try await rig.rig.wait { _, done in
        var answers: [UInt64: Bool] = [:]
        var calls = 0
        for order in all {
          let message = InboxMessage(
            from: "alice", device: 1, order: order, floor: 1, payload: [UInt8](repeating: 1, count: 100), expires: 9)
          rig.inbox.append(to: "bob", message: message, knownDead: 0, spilling: 0, limits: InboxLimits()) { result in
            calls += 1
            if calls == 100 * round { rig.redis.signal(SIGKILL) }
            answers[order] = (try? result.get().withoutName).map { $0 == .added || $0 == .duplicate } ?? false
            if calls == all.count { done(answers) }
          }
        }
      }
      #expect(answers.count == all.count)
      // The link says that each was answered once; here that what was said holds.
      stored.formUnion(answers.filter(\.value).keys)
      rig.redis.kill()
      try await rig.rig.until { !$0.link.isUp }
      try rig.redis.start()
      try await rig.rig.until { $0.link.isUp }
      let there = try await rig.orders()
      #expect(there == there.sorted() && Set(there).count == there.count)
      #expect(stored.isSubset(of: there))
    }
    #expect(try await rig.append(1...600).allSatisfy { $0 == .added || $0 == .duplicate })
    #expect(try await rig.orders() == Array(all))
    #expect(try await rig.counts()["messages"] == "600")
    await rig.close()
  }
}
