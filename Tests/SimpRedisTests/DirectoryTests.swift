import Glibc
import SimpCore
import SimpIO
import Testing

@testable import SimpRedis

/// A server, a link and a directory, with the directory's calls made to wait.
final class DirectoryRig: @unchecked Sendable {
  let redis: TestRedis
  let rig: RedisRig
  /// Touched on the loop only.
  private(set) var onLoop: EndpointDirectory!

  init() async throws {
    redis = try TestRedis()
    rig = try RedisRig(address: redis.address)
    await rig.run { rig in self.onLoop = EndpointDirectory(loop: rig.loop, link: rig.link, node: "node-1") }
    try await rig.startAndWait()
  }

  func close() async {
    await rig.run { _ in self.onLoop = nil }
    await rig.close()
  }

  func directory<Value: Sendable>(_ body: @escaping @Sendable (EndpointDirectory) -> Value) async -> Value {
    await rig.run { _ in body(self.onLoop) }
  }

  func open(
    _ outbox: UInt64, presented: UInt32 = 0, sendOnly: Bool = false, epoch: UInt64 = 1000, user: String = "bob"
  ) async throws -> SessionGrant {
    let result: Result<SessionGrant, RedisError> = try await rig.wait { _, done in
      self.onLoop.openSession(
        user: user, outboxId: outbox, presentedDevice: presented, sendOnly: sendOnly, proposedEpoch: epoch,
        completion: done)
    }
    return try result.get()
  }

  func write(
    _ grant: SessionGrant, address: PeerAddress? = .v4(127, 0, 0, 1, port: 40_123), user: String = "bob"
  ) async throws -> EndpointState {
    let result: Result<EndpointState, RedisError> = try await rig.wait { _, done in
      self.onLoop.writeEndpoint(
        user: user, device: grant.deviceNumber, epoch: grant.epoch, connectionId: 0x01AB, address: address,
        transport: address == nil ? .tcp : .udp, since: 1_800_000_000_123, completion: done)
    }
    return try result.get()
  }

  func remove(_ grant: SessionGrant) async throws -> Bool {
    let result: Result<Bool, RedisError> = try await rig.wait { _, done in
      self.onLoop.removeEndpoint(
        user: "bob", device: grant.deviceNumber, epoch: grant.epoch, completion: done)
    }
    return try result.get()
  }

  func endpoints() async throws -> [String: String] { try await rig.hash("simp:endpoints:{u:bob}") }
}

@Suite(.serialized) struct DirectoryTests {
  @Test func eachOutboxHasItsNumber() async throws {
    let rig = try await DirectoryRig()
    #expect(try await rig.open(0xA).deviceNumber == 1)
    #expect(try await rig.open(0xB).deviceNumber == 2)
    #expect(try await rig.open(0xA).deviceNumber == 1)
    #expect(try await rig.open(.max).deviceNumber == 3)
    #expect(try await rig.open(0).deviceNumber == 4)
    #expect(try await rig.open(0xA, presented: 9).deviceNumber == 1)
    #expect(try await rig.open(0xE, presented: .max).deviceNumber == 5)
    #expect(try await rig.open(0xA, user: "alice").deviceNumber == 1)
    await rig.close()
  }

  @Test func presentedNumbers() async throws {
    let rig = try await DirectoryRig()
    #expect(try await rig.open(0xA, presented: 7).deviceNumber == 7)
    // Nobody has 3, so that an outbox from before a loss of data keeps it.
    #expect(try await rig.open(0xB, presented: 3).deviceNumber == 3)
    #expect(try await rig.open(0xC).deviceNumber == 8)
    #expect(try await rig.open(0xD, presented: 7).deviceNumber == 9)
    #expect(try await rig.open(0xE, presented: 3).deviceNumber == 10)
    #expect(try await rig.open(0xD, presented: 7).deviceNumber == 9)
    #expect(try await rig.open(0xF, presented: 0xFF_FFFF).deviceNumber == 0xFF_FFFF)
    await #expect(throws: RedisError.self) { try await rig.open(0x10) }
    #expect(try await rig.open(0xA).deviceNumber == 7)
    await rig.close()
  }

  @Test func epochsOnlyGrow() async throws {
    let rig = try await DirectoryRig()
    #expect(try await rig.open(0xA, epoch: 1000).epoch == 1000)
    #expect(try await rig.open(0xA, epoch: 1000).epoch == 1001)
    #expect(try await rig.open(0xB, epoch: 5).epoch == 1002)
    #expect(try await rig.open(0xB, epoch: 2000).epoch == 2000)
    // The largest ones are told apart: doubles must not blur them.
    let top = UInt64(1) << 53
    #expect(try await rig.open(0xA, epoch: top - 3).epoch == top - 3)
    #expect(try await rig.open(0xA, epoch: 1).epoch == top - 2)
    #expect(try await rig.open(0xA, epoch: 1).epoch == top - 1)
    await #expect(throws: RedisError.self) { try await rig.open(0xA, epoch: 1) }
    await rig.close()
  }

  @Test func aSendOnlyLoginEndsNobody() async throws {
    let rig = try await DirectoryRig()
    let session = try await rig.open(0xA)
    let sender = try await rig.open(0xB, sendOnly: true)
    #expect(sender == SessionGrant(deviceNumber: 2, epoch: 0))
    #expect(try await rig.write(session) == .live)
    #expect(try await rig.open(0xA, epoch: 1).epoch == session.epoch + 1)
    await rig.close()
  }

  @Test func theEndpointAsItIsRead() async throws {
    let rig = try await DirectoryRig()
    let session = try await rig.open(0xA, epoch: 1_700_000_000 << 20)
    #expect(try await rig.write(session) == .live)
    #expect(
      try await rig.endpoints() == [
        "1": "epoch=1782579200000000 node=node-1 cid=0000000001ab udp=127.0.0.1:40123 since=1800000000123 "
          + "transport=udp state=live"
      ])
    #expect(try await rig.write(session, address: nil) == .live)
    #expect(
      try await rig.endpoints() == [
        "1": "epoch=1782579200000000 node=node-1 cid=0000000001ab udp=- since=1800000000123 transport=tcp state=live"
      ])
    await rig.close()
  }

  @Test func liveIsOnlyWhoseInboxIsEmpty() async throws {
    let rig = try await DirectoryRig()
    let inbox: RedisArgument = "simp:inbox:{u:bob}"
    let session = try await rig.open(0xA)
    #expect(try await rig.write(session) == .live)
    let id = try await rig.rig.command(["XADD", inbox, "*", "f", "alice"]).text ?? ""
    #expect(try await rig.write(session) == .catchingUp)
    #expect(try await rig.endpoints()["1"]?.hasSuffix(" transport=udp state=catching") == true)

    // Another session of the user meets the same inbox; the older one is told nothing of it.
    let new = try await rig.open(0xB)
    #expect(try await rig.write(session) == .superseded)
    #expect(try await rig.write(new) == .catchingUp)
    #expect(try await rig.endpoints().keys.sorted() == ["2"])

    // A stream without entries is as good as none.
    #expect(try await rig.rig.command(["XDEL", inbox, RedisArgument(id)]) == .integer(1))
    #expect(try await rig.rig.command(["EXISTS", inbox]) == .integer(1))
    #expect(try await rig.write(new) == .live)
    #expect(try await rig.endpoints()["2"]?.hasSuffix(" transport=udp state=live") == true)
    await rig.close()
  }

  @Test func repliesThatAreNotExpected() async throws {
    let rig = try await DirectoryRig()
    let session = try await rig.open(0xA)
    #expect(try await rig.rig.command(["SET", "simp:inbox:{u:bob}", "x"]) == .status("OK"))
    let error = await #expect(throws: RedisError.self) { try await rig.write(session) }
    #expect(error?.code == .server)
    #expect(try await rig.endpoints() == [:])
    await rig.close()
  }

  @Test func anOldSessionChangesNothingOfANewOne() async throws {
    let rig = try await DirectoryRig()
    let old = try await rig.open(0xA)
    #expect(try await rig.write(old) == .live)
    let new = try await rig.open(0xB)
    #expect(new.epoch > old.epoch)

    // Between login and endpoint of the new one the old one is fenced off already.
    #expect(try await rig.write(old) == .superseded)
    #expect(try await rig.write(new) == .live)
    #expect(try await rig.endpoints().keys.sorted() == ["2"])
    #expect(try await rig.write(old) == .superseded)
    #expect(try await !rig.remove(old))
    #expect(try await rig.endpoints().keys.sorted() == ["2"])

    #expect(try await rig.remove(new))
    #expect(try await rig.rig.command(["EXISTS", "simp:endpoints:{u:bob}"]) == .integer(0))
    #expect(try await !rig.remove(new))
    await rig.close()
  }

  @Test func theSameDeviceAgain() async throws {
    let rig = try await DirectoryRig()
    let old = try await rig.open(0xA)
    #expect(try await rig.write(old) == .live)
    let new = try await rig.open(0xA)
    #expect(new.deviceNumber == old.deviceNumber)
    #expect(try await rig.write(new) == .live)
    // The late end of the old connection names the same field.
    #expect(try await !rig.remove(old))
    #expect(try await rig.endpoints()["1"]?.hasPrefix("epoch=\(new.epoch) ") == true)
    #expect(try await rig.remove(new))
    #expect(try await rig.endpoints() == [:])
    await rig.close()
  }

  @Test func scriptsThatRedisForgot() async throws {
    let rig = try await DirectoryRig()
    let session = try await rig.open(0xA)
    #expect(try await rig.rig.command(["SCRIPT", "FLUSH"]) == .status("OK"))
    #expect(try await rig.open(0xA).deviceNumber == session.deviceNumber)
    #expect(try await rig.rig.command(["SCRIPT", "FLUSH"]) == .status("OK"))
    let new = try await rig.open(0xA)
    #expect(try await rig.write(new) == .live)
    #expect(try await rig.remove(new))
    await rig.close()
  }

  @Test func afterRedisLostItsData() async throws {
    let rig = try await DirectoryRig()
    let old = try await rig.open(0xA)
    let new = try await rig.open(0xB, presented: 5)
    #expect(try await rig.rig.command(["FLUSHALL"]) == .status("OK"))
    // The fence is back with the first endpoint that is written again, the numbers too.
    #expect(try await rig.write(new) == .live)
    #expect(try await rig.write(old) == .superseded)
    #expect(try await rig.endpoints().keys.sorted() == ["5"])
    #expect(try await rig.open(0xC, epoch: 1) == SessionGrant(deviceNumber: 6, epoch: new.epoch + 1))
    await rig.close()
  }

  @Test(arguments: ["", "b b", "bob}", "{u:x}", "a\r\nb", String(repeating: "x", count: 65), "ü", "a\0"])
  func namesOutsideTheGrammarReachNoKey(user: String) async throws {
    let rig = try await DirectoryRig()
    for action in [
      { try await rig.open(0xA, user: user) as Any },
      { try await rig.write(.init(deviceNumber: 1, epoch: 1), user: user) as Any },
    ] {
      let error = await #expect(throws: RedisError.self) { try await action() }
      #expect(error?.code == .invalidName)
    }
    #expect(try await rig.rig.command(["DBSIZE"]) == .integer(0))
    await rig.close()
  }

  @Test func outboxesOfAUserAreBounded() async throws {
    let rig = try await DirectoryRig()
    let count = 3000
    var last: UInt32 = 0
    // In batches, each with its own deadlines: Redis writes every change to its file before it answers.
    for start in stride(from: 0, to: count, by: 100) {
      last = try await rig.rig.wait { _, done in
        var answered = 0
        for outbox in UInt64(start)..<UInt64(start + 100) {
          rig.onLoop.openSession(
            user: "bob", outboxId: outbox, presentedDevice: 0, sendOnly: true, proposedEpoch: 1
          ) { result in
            answered += 1
            if answered == 100 { done((try? result.get().deviceNumber) ?? 0) }
          }
        }
      }
    }
    #expect(last == UInt32(count))
    guard case .integer(let fields) = try await rig.rig.command(["HLEN", "simp:devices:{u:bob}"]) else { return }
    #expect(fields <= 4 * Int64(EndpointScripts.rememberedOutboxes) + 4)
    #expect(try await rig.open(UInt64(count - 1)).deviceNumber == UInt32(count))
    // A forgotten one that knows its number keeps it; one that does not gets a fresh one.
    #expect(try await rig.open(10, presented: 11).deviceNumber == 11)
    #expect(try await rig.open(20).deviceNumber == UInt32(count + 1))
    await rig.close()
  }

  @Test func theNodeIsAliveUntilItIsRemoved() async throws {
    let rig = try await DirectoryRig()
    let key: RedisArgument = "simp:node:node-1"
    // Asked for behind the first refresh: Redis does both at once, however late that is.
    let asked: Result<RedisReply, RedisError> = try await rig.rig.wait { redis, done in
      rig.onLoop.keepAlive()
      redis.link.command(["PTTL", key], deadline: .seconds(20), completion: done)
    }
    let value = try await rig.rig.command(["GET", key]).text ?? ""
    #expect(value.hasSuffix(" pid=\(getpid())") && value.hasPrefix("since="))
    let lifetime = try asked.get().integer ?? 0
    #expect(lifetime > 14_000 && lifetime <= 15_000)

    // It comes back by itself: with the next refresh, and with the link.
    #expect(try await rig.rig.command(["DEL", key]) == .integer(1))
    try await rig.rig.until { rig in
      rig.link.command(["EXISTS", key]) { if case .success(.integer(1)) = $0 { rig.values["back"] = true } }
      return rig.values["back"] != nil
    }
    #expect(try await rig.rig.command(["DEL", key]) == .integer(1))
    rig.redis.kill()
    try await rig.rig.until { !$0.link.isUp }
    try rig.redis.start()
    try await rig.rig.until { $0.link.isUp }
    #expect(try await rig.rig.command(["EXISTS", key]) == .integer(1))

    let removed: Result<Bool, RedisError> = try await rig.rig.wait { _, done in
      rig.onLoop.removeNode(completion: done)
    }
    #expect(try removed.get())
    #expect(try await rig.rig.command(["EXISTS", key]) == .integer(0))
    await rig.close()
  }
}
