import Glibc
import SimpCore
import SimpIO
import Testing

@testable import SimpRedis

@Suite(.serialized) struct BatchTests {
  /// What each command of a batch was answered, once all are. Says also whether one was answered from inside the call.
  private func together(
    _ rig: RedisRig, _ commands: [[RedisArgument]], deadline: Interval = .seconds(20)
  ) async throws -> [Result<RedisReply, RedisError>] {
    let answers: [Result<RedisReply, RedisError>] = try await rig.wait { rig, done in
      var answers: [Int: Result<RedisReply, RedisError>] = [:]
      var isInside = true
      rig.link.together {
        for (index, words) in commands.enumerated() {
          rig.link.command(words, deadline: deadline) { result in
            #expect(!isInside && answers[index] == nil)
            answers[index] = result
            if answers.count == commands.count { done(commands.indices.map { answers[$0]! }) }
          }
        }
      }
      isInside = false
    }
    return answers
  }

  @Test func eachCommandHasItsReply() async throws {
    let redis = try TestRedis()
    let rig = try RedisRig(address: redis.address)
    try await rig.startAndWait()
    let answers = try await together(
      rig,
      [["SET", "k", "1"], ["INCR", "k"], ["LPUSH", "k", "x"], ["GET", "nothing"], ["GET", "k"], ["HGETALL", "h"]])
    #expect(answers[0] == .success(.status("OK")))
    #expect(answers[1] == .success(.integer(2)))
    // One that fails does not stop the others.
    guard case .success(.error(let text)) = answers[2], text.hasPrefix("WRONGTYPE") else {
      Issue.record("LPUSH on a string is an error, not \(answers[2])")
      return
    }
    #expect(answers[3...] == [.success(.null), .success(.string([0x32])), .success(.array([]))])
    // One alone, none, and one inside another.
    #expect(try await together(rig, [["GET", "k"]]) == [.success(.string([0x32]))])
    await rig.run { rig in rig.link.together {} }
    let nested: [Int64] = try await rig.wait { rig, done in
      var numbers: [Int64] = []
      let next: (Result<RedisReply, RedisError>) -> Void = { result in
        numbers.append((try? result.get().integer) ?? -1)
        if numbers.count == 4 { done(numbers) }
      }
      rig.link.together {
        rig.link.command(["INCR", "n"], completion: next)
        rig.link.together { rig.link.command(["INCR", "n"], completion: next) }
        rig.link.command(["INCR", "n"], completion: next)
      }
      rig.link.command(["INCR", "n"], completion: next)
    }
    #expect(nested == [1, 2, 3, 4])
    await rig.close()
  }

  @Test func allAreCarriedOutAtOnce() async throws {
    let redis = try TestRedis()
    let rig = try RedisRig(address: redis.address)
    try await rig.startAndWait()
    let count = RedisBatch.maximumCommands + 10
    let answers = try await together(rig, Array(repeating: ["INCR", "n"], count: count))
    #expect(answers == (1...Int64(count)).map { .success(.integer($0)) })
    let lines = try #require(await rig.command(["INFO", "commandstats"]).text).split(whereSeparator: \.isNewline)
    // In two parts, for nobody else is served meanwhile.
    #expect(lines.contains { $0.hasPrefix("cmdstat_exec:calls=2,") })
    await rig.close()
  }

  @Test func whatRedisDoesNotTakeStopsAll() async throws {
    let redis = try TestRedis()
    let rig = try RedisRig(address: redis.address)
    try await rig.startAndWait()
    let answers = try await together(rig, [["SET", "k", "1"], ["NOSUCHCOMMAND"], ["SET", "j", "1"]])
    for answer in answers {
      guard case .failure(let error) = answer else {
        Issue.record("answered \(answer)")
        continue
      }
      #expect(error.code == .server && error.description.contains("EXECABORT"))
    }
    #expect(try await rig.command(["DBSIZE"]) == .integer(0))
    // Nothing of it is left on the connection.
    #expect(try await rig.command(["SET", "k", "1"]) == .status("OK"))
    await rig.close()
  }

  @Test func aBatchIsRefusedWhole() async throws {
    let redis = try TestRedis()
    let rig = try RedisRig(address: redis.address)
    #expect(codes(try await together(rig, [["PING"], ["PING"]])) == [.notConnected, .notConnected])
    try await rig.startAndWait()
    redis.signal(SIGSTOP)
    // Room for these, but not for those: a MULTI without its EXEC would swallow all that comes after it.
    let waiting = Completions()
    await rig.run { rig in
      for _ in 0..<RedisConnection.maximumInFlight - 4 {
        rig.link.command(["PING"], deadline: .seconds(60), completion: waiting.next())
      }
    }
    let three: [[RedisArgument]] = Array(repeating: ["INCR", "n"], count: 3)
    #expect(codes(try await together(rig, three)) == Array(repeating: .tooManyInFlight, count: 3))
    let last = Completions()
    await rig.run { rig in
      rig.link.together {
        for _ in 1...2 { rig.link.command(["INCR", "n"], deadline: .seconds(60), completion: last.next()) }
      }
    }
    redis.signal(SIGCONT)
    try await rig.until { _ in last.answered == 2 }
    #expect(await rig.run { _ in last.results } == [[.success(.integer(1))], [.success(.integer(2))]])
    #expect(await rig.run { _ in Set(waiting.codes) } == [nil])
    await rig.close()
  }

  @Test func everythingIsAnsweredOnceWhenRedisIsKilled() async throws {
    let redis = try TestRedis()
    let rig = try RedisRig(address: redis.address)
    try await rig.startAndWait()
    redis.signal(SIGSTOP)
    let completions = Completions()
    await rig.run { rig in
      for _ in 1...3 {
        rig.link.together {
          for _ in 1...50 { rig.link.command(["INCR", "n"], deadline: .seconds(60), completion: completions.next()) }
        }
      }
    }
    redis.kill()
    try await rig.until { _ in completions.answered == 150 }
    #expect(await rig.run { _ in Set(completions.codes) } == [.connectionLost])
    try redis.start()
    try await rig.until { $0.link.isUp }
    #expect(try await rig.command(["GET", "n"]) == .null)
    #expect(await rig.run { _ in completions.calls } == 150)
    await rig.close()
  }

  /// Scripts in a batch, known or forgotten, and several users: as one by one.
  @Test func appendsTogether() async throws {
    let rig = try await InboxRig()
    for isForgotten in [false, true] {
      if isForgotten { #expect(try await rig.rig.command(["SCRIPT", "FLUSH"]) == .status("OK")) }
      let user = isForgotten ? "carol" : "bob"
      let answers: [InboxAnswer?] = try await rig.rig.wait { redis, done in
        var answers: [InboxAnswer?] = []
        redis.link.together {
          for order in [1, 2, 2, 3] as [UInt64] {
            rig.inbox.append(
              to: user,
              message: InboxMessage(from: "alice", device: 1, order: order, floor: 1, payload: [1], expires: 9),
              knownDead: 0, spilling: 0, limits: InboxLimits()
            ) { result in
              answers.append(try? result.get())
              if answers.count == 4 { done(answers) }
            }
          }
        }
      }
      #expect(answers.map { $0?.withoutName } == [.added, .added, .duplicate, .added])
      #expect(try await rig.read(user: user).map(\.order) == [1, 2, 3])
    }
    #expect(try await Set(rig.expiring(before: 9)) == ["bob", "carol"])
    await rig.close()
  }

  private func codes(_ results: [Result<RedisReply, RedisError>]) -> [RedisError.Code?] {
    results.map { if case .failure(let error) = $0 { error.code } else { nil } }
  }
}
