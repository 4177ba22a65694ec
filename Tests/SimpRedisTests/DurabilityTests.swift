import SimpCore
import SimpIO
import Testing

@testable import SimpRedis

@Suite(.serialized) struct DurabilityTests {
  private func ask(_ rig: RedisRig) async throws -> RedisDurability {
    let result: Result<RedisDurability, RedisError> = try await rig.wait { rig, done in
      rig.link.durability(completion: done)
    }
    return try result.get()
  }

  @Test(arguments: [
    (["--appendfsync", "always"], RedisDurability.always), (["--appendfsync", "everysec"], .everySecond),
    (["--appendfsync", "no"], .never), (["--appendonly", "no", "--appendfsync", "always"], .noAppendOnlyFile),
    (["--rename-command", "CONFIG", "hidden"], .unknown), (["--rename-command", "CONFIG", ""], .unknown),
    (["--user", "default", "on", "nopass", "~*", "+@all", "-config"], .unknown),
  ])
  func asRedisIsSet(options: [String], expected: RedisDurability) async throws {
    let redis = try TestRedis(options: options)
    let rig = try RedisRig(address: redis.address)
    try await rig.startAndWait()
    #expect(try await ask(rig) == expected)
    await rig.close()
  }

  @Test func aChangeIsSeen() async throws {
    let redis = try TestRedis()
    let rig = try RedisRig(address: redis.address)
    try await rig.startAndWait()
    #expect(try await ask(rig) == .everySecond)
    #expect(try await rig.command(["CONFIG", "SET", "appendfsync", "always"]) == .status("OK"))
    #expect(try await ask(rig) == .always)
    redis.kill()
    try await rig.until { !$0.link.isUp }
    let error = await #expect(throws: RedisError.self) { try await ask(rig) }
    #expect(error?.code == .notConnected)
    await rig.close()
  }

  @Test func repliesThatAreNotExpected() {
    func words(_ words: [String]) -> RedisReply { .array(words.map { .string(Array($0.utf8)) }) }
    func code(_ reply: RedisReply) -> RedisError.Code? {
      if case .failure(let error) = RedisDurability.read(reply) { error.code } else { nil }
    }
    for reply in [
      .null, .integer(1), .status("OK"), words(["appendonly"]), .array([.string(Array("appendonly".utf8)), .null]),
      .array([.string([0xFF]), .string([0x31])]),
    ] as [RedisReply] {
      #expect(code(reply) == .unexpectedReply, "\(reply)")
    }
    #expect(code(.error("LOADING Redis is loading")) == .server)
    let soon = ["appendonly", "yes", "appendfsync", "soon"]
    for settings in [[], ["appendonly", "yes"], ["appendfsync", "always"], soon] {
      #expect(RedisDurability.read(words(settings)) == .success(.unknown), "\(settings)")
    }
  }
}
