import Glibc
import SimpCore
import SimpIO
import Testing

@testable import SimpRedis

@Suite(.serialized) struct LinkTests {
  @Test func repliesOfEveryKind() async throws {
    let redis = try TestRedis()
    let rig = try RedisRig(address: redis.address)
    try await rig.startAndWait()
    let bytes: [UInt8] = [0, 13, 10, 36, 255, 0] + Array("$3\r\n*1".utf8)
    #expect(try await rig.command(["SET", "k", RedisArgument(bytes)]) == .status("OK"))
    #expect(try await rig.command(["GET", "k"]) == .string(bytes))
    #expect(try await rig.command(["GET", "nothing"]) == .null)
    #expect(try await rig.command(["SET", RedisArgument([]), RedisArgument("")]) == .status("OK"))
    #expect(try await rig.command(["GET", ""]) == .string([]))
    #expect(try await rig.command(["INCRBY", "n", RedisArgument(Int64.max)]) == .integer(.max))
    guard case .error(let text) = try await rig.command(["LPUSH", "k", "x"]) else {
      Issue.record("LPUSH on a string is an error")
      return
    }
    #expect(text.hasPrefix("WRONGTYPE"))
    let nested = try await rig.command(["EVAL", "return {1, {'a', {}}, false, redis.error_reply('NO way')}", "0"])
    #expect(nested == .array([.integer(1), .array([.string([97]), .array([])]), .null, .error("NO way")]))
    await rig.close()
  }

  @Test func manyCommandsAreAnsweredInOrder() async throws {
    let redis = try TestRedis()
    let rig = try RedisRig(address: redis.address)
    try await rig.startAndWait()
    let numbers: [Int64] = try await rig.wait { rig, done in
      var numbers: [Int64] = []
      for _ in 0..<10_000 {
        rig.link.command(["INCR", "n"], deadline: .seconds(20)) { result in
          if case .success(.integer(let number)) = result { numbers.append(number) }
          if numbers.count == 10_000 { done(numbers) }
        }
      }
    }
    #expect(numbers == Array(1...10_000))
    await rig.close()
  }

  /// The server is stopped first, so that all commands are certainly under way when it dies.
  @Test func everythingIsAnsweredOnceWhenRedisIsKilled() async throws {
    let redis = try TestRedis()
    let rig = try RedisRig(address: redis.address)
    let completions = Completions()
    await rig.run { rig in
      rig.values["downs"] = 0
      rig.link.onDown = { error in
        rig.values["downs"] = (rig.values["downs"] as? Int ?? 0) + 1
        rig.values["answeredBeforeDown"] = completions.answered
      }
    }
    try await rig.startAndWait()
    redis.signal(SIGSTOP)
    let answeredInside = await rig.run { rig in
      for _ in 0..<500 {
        rig.link.command(["INCR", "n"], deadline: .seconds(30), completion: completions.next())
      }
      return completions.answered
    }
    #expect(answeredInside == 0)
    redis.kill()
    try await rig.until { _ in completions.answered == 500 }
    #expect(await rig.run { _ in Set(completions.codes) } == [.connectionLost])

    // While it is away: refused at once, in a later turn.
    let refusals = Completions()
    let refusedInside = await rig.run { rig in
      rig.link.command(["PING"], completion: refusals.next())
      return refusals.answered
    }
    #expect(refusedInside == 0)
    try await rig.until { _ in refusals.answered == 1 }
    #expect(await rig.run { _ in refusals.codes } == [.notConnected])

    try redis.start()
    try await rig.until { $0.link.isUp }
    #expect(try await rig.command(["PING"]) == .status("PONG"))
    #expect(await rig.run { _ in completions.calls } == 500)
    #expect(await rig.run { $0.values["downs"] as? Int } == 1)
    #expect(await rig.run { $0.values["answeredBeforeDown"] as? Int } == 500)
    #expect(await rig.run { $0.link.lastError } == nil)
    await rig.close()
  }

  @Test func aCommandSentWhileTheConnectionEndsIsRefused() async throws {
    let redis = try TestRedis()
    let rig = try RedisRig(address: redis.address)
    try await rig.startAndWait()
    redis.signal(SIGSTOP)
    let completions = Completions()
    await rig.run { rig in
      for _ in 0..<3 {
        rig.link.command(["PING"], deadline: .seconds(30)) { _ in
          rig.values["wasUp"] = (rig.values["wasUp"] as? Bool ?? false) || rig.link.isUp
          rig.link.command(["PING"], completion: completions.next())
          rig.values["inside"] = (rig.values["inside"] as? Int ?? 0) + completions.answered
        }
      }
    }
    redis.kill()
    try await rig.until { _ in completions.answered == 3 }
    #expect(await rig.run { _ in completions.codes } == [.notConnected, .notConnected, .notConnected])
    #expect(await rig.run { $0.values["wasUp"] as? Bool } == false)
    #expect(await rig.run { $0.values["inside"] as? Int } == 0)
    #expect(await rig.run { _ in completions.calls } == 3)
    await rig.close()
  }

  @Test func aStoppedRedisIsGivenUpAtTheDeadline() async throws {
    let redis = try TestRedis()
    let rig = try RedisRig(address: redis.address)
    try await rig.startAndWait()
    redis.signal(SIGSTOP)
    let completions = Completions()
    let started = rig.loop.now
    await rig.run { rig in
      rig.link.onAttemptFailed = { error in rig.values["attempt"] = error.code }
      rig.link.command(["INCR", "n"], deadline: .milliseconds(200), completion: completions.next())
      rig.link.command(["INCR", "n"], deadline: .seconds(30), completion: completions.next())
    }
    try await rig.until { _ in completions.answered == 2 }
    let waited = rig.loop.now - started
    #expect(await rig.run { _ in completions.codes } == [.timedOut, .connectionLost])
    #expect(waited >= .milliseconds(200) && waited < .seconds(25), "\(waited.milliseconds) ms")
    #expect(await rig.run { !$0.link.isUp })
    // It accepts connections, but answers none: the link must not count as up.
    try await rig.until { $0.values["attempt"] as? RedisError.Code == .connectionLost }
    #expect(await rig.run { !$0.link.isUp })
    redis.signal(SIGCONT)
    try await rig.until { $0.link.isUp }
    #expect(try await rig.command(["PING"]) == .status("PONG"))
    #expect(await rig.run { _ in completions.calls } == 2)
    await rig.close()
  }

  @Test func aLateCommandBehindAnEarlierOneIsAnsweredAtItsOwnDeadline() async throws {
    let redis = try TestRedis()
    let rig = try RedisRig(address: redis.address)
    try await rig.startAndWait()
    let completions = Completions()
    await rig.run { rig in
      // Redis answers the first when another client gives it something; the second waits behind it.
      rig.link.command(["BLPOP", "list", "0"], deadline: .seconds(60), completion: completions.next())
      rig.link.command(["PING"], deadline: .milliseconds(100), completion: completions.next())
    }
    try await rig.until { _ in completions.results[1].count == 1 }
    #expect(await rig.run { _ in completions.results[0].isEmpty })
    #expect(await rig.run { $0.link.isUp })
    let other = try RedisRig(address: redis.address)
    try await other.startAndWait()
    #expect(try await other.command(["RPUSH", "list", "x"]) == .integer(1))
    await other.close()
    try await rig.until { _ in completions.answered == 2 }
    #expect(try await rig.command(["PING"]) == .status("PONG"))
    let popped = RedisReply.array([.string(Array("list".utf8)), .string(Array("x".utf8))])
    #expect(await rig.run { _ in completions.results } == [[.success(popped)], completions.results[1]])
    #expect(await rig.run { _ in completions.calls } == 2)
    await rig.close()
  }

  /// A long queue is no stall: given up, the link would have all of it to do again.
  @Test func aRedisThatAnswersSlowlyIsNotGivenUp() async throws {
    let redis = try TestRedis()
    let rig = try RedisRig(address: redis.address)
    try await rig.startAndWait()
    let completions = Completions()
    await rig.run { rig in
      rig.link.onDown = { _ in rig.values["wentDown"] = true }
      // One after the other: 4.5 s in all.
      for _ in 0..<15 {
        rig.link.command(["BLPOP", "nothing", "0.3"], deadline: .milliseconds(2500), completion: completions.next())
      }
    }
    try await rig.until { _ in completions.answered == 15 }
    let codes = await rig.run { _ in completions.codes }
    #expect(codes.first == .some(nil) && codes.last == .timedOut, "\(codes)")
    #expect(try await rig.command(["PING"], deadline: .seconds(20)) == .status("PONG"))
    #expect(await rig.run { $0.values["wentDown"] == nil })
    await rig.close()
  }

  @Test func aLoopThatWasLateReadsBeforeItJudges() async throws {
    let redis = try TestRedis()
    let rig = try RedisRig(address: redis.address)
    try await rig.startAndWait()
    let completions = Completions()
    let (process, socket) = (redis.pid, redis.socket)
    redis.signal(SIGSTOP)
    await rig.run { rig in
      rig.link.command(["INCR", "n"], deadline: .milliseconds(300), completion: completions.next())
    }
    // The command has to leave first: a few turns, in which the loop asks what it can write to.
    try await rig.until { rig in
      let turns = (rig.values["turns"] as? Int ?? 0) + 1
      rig.values["turns"] = turns
      return turns > 5
    }
    // The loop sleeps over its deadline, and Redis answers meanwhile.
    let hasAnswered = await rig.run { rig in
      usleep(600_000)
      kill(process, SIGCONT)
      // Whoever asks second is answered second.
      let end = rig.loop.now + .seconds(20)
      while rig.loop.now < end {
        if unsafe system("redis-cli -s \(socket) get n | grep -qx 1") == 0 { return true }
      }
      return false
    }
    #expect(hasAnswered)
    try await rig.until { _ in completions.answered == 1 }
    #expect(await rig.run { _ in completions.results } == [[.success(.integer(1))]])
    #expect(await rig.run { $0.link.isUp })
    await rig.close()
  }

  @Test func whatWaitsIsBounded() async throws {
    let redis = try TestRedis()
    let rig = try RedisRig(address: redis.address)
    try await rig.startAndWait()
    redis.signal(SIGSTOP)
    let many = Completions()
    await rig.run { rig in
      for _ in 0..<(RedisConnection.maximumInFlight + 5) {
        rig.link.command(["INCR", "n"], deadline: .seconds(30), completion: many.next())
      }
    }
    try await rig.until { _ in many.answered == 5 }
    #expect(await rig.run { _ in many.codes } == Array(repeating: .tooManyInFlight, count: 5))
    redis.signal(SIGCONT)
    try await rig.until { _ in many.answered == RedisConnection.maximumInFlight + 5 }
    #expect(try await rig.command(["GET", "n"]) == .string(Array("\(RedisConnection.maximumInFlight)".utf8)))

    redis.signal(SIGSTOP)
    let large = Completions()
    await rig.run { rig in
      let value = RedisArgument([UInt8](repeating: 7, count: 6 << 20))
      for _ in 0..<3 { rig.link.command(["SET", "k", value], deadline: .seconds(30), completion: large.next()) }
    }
    try await rig.until { _ in large.answered == 1 }
    #expect(await rig.run { _ in large.codes } == [.tooManyInFlight])
    redis.signal(SIGCONT)
    try await rig.until { _ in large.answered == 3 }
    await rig.close()
  }

  @Test func stoppingAnswersEverythingOnce() async throws {
    let redis = try TestRedis()
    let rig = try RedisRig(address: redis.address)
    try await rig.startAndWait()
    let completions = Completions()
    let answered = await rig.run { rig in
      for _ in 0..<10 { rig.link.command(["PING"], completion: completions.next()) }
      rig.link.stop()
      return completions.answered
    }
    #expect(answered == 10)
    #expect(await rig.run { _ in Set(completions.codes) } == [.stopped])
    await rig.run { rig in rig.link.command(["PING"], completion: completions.next()) }
    try await rig.until { _ in completions.answered == 11 }
    #expect(await rig.run { _ in completions.codes.last } == .notConnected)
    // And it can be started again.
    try await rig.startAndWait()
    #expect(try await rig.command(["PING"]) == .status("PONG"))
    #expect(await rig.run { _ in completions.calls } == 11)
    await rig.close()
  }

  @Test func stoppingFromACompletion() async throws {
    let redis = try TestRedis()
    let rig = try RedisRig(address: redis.address)
    try await rig.startAndWait()
    let completions = Completions()
    let first: Bool = try await rig.wait { rig, done in
      rig.link.command(["PING"]) { result in
        rig.link.stop()
        done((try? result.get()) == .status("PONG"))
      }
      for _ in 0..<3 { rig.link.command(["PING"], completion: completions.next()) }
    }
    #expect(first)
    try await rig.until { _ in completions.answered == 3 }
    #expect(await rig.run { _ in completions.calls } == 3)
    await rig.close()
  }

  @Test func aLinkWaitsForARedisThatComesLater() async throws {
    let redis = try TestRedis()
    redis.kill()
    unsafe unlink(redis.socket)
    let rig = try RedisRig(address: redis.address)
    await rig.run { rig in
      rig.link.onAttemptFailed = { error in rig.values["code"] = error.systemCode }
      rig.link.start()
    }
    try await rig.until { $0.values["code"] as? Int32 == ENOENT }
    try redis.start()
    try await rig.until { $0.link.isUp }
    await rig.close()
  }
}
