import SimpCore
import SimpIO
import Testing

@testable import SimpRedis

/// A server, a link, and the directories of inboxes and endpoints, with their calls made to wait. The inbox is bob's unless it is said.
final class InboxRig: @unchecked Sendable {
  let redis: TestRedis
  let rig: RedisRig
  /// Touched on the loop only.
  private(set) var inbox: InboxDirectory!
  private(set) var endpoints: EndpointDirectory!

  init(options: [String] = []) async throws {
    redis = try TestRedis(options: options)
    rig = try RedisRig(address: redis.address)
    await rig.run { rig in
      self.inbox = InboxDirectory(link: rig.link)
      self.endpoints = EndpointDirectory(loop: rig.loop, link: rig.link, node: "node-1")
    }
    try await rig.startAndWait()
  }

  func close() async {
    await rig.run { _ in
      self.inbox = nil
      self.endpoints = nil
    }
    await rig.close()
  }

  private func wait<Value: Sendable>(
    _ body: @escaping @Sendable (InboxRig, @escaping (Result<Value, RedisError>) -> Void) -> Void
  ) async throws -> Value {
    let result: Result<Value, RedisError> = try await rig.wait { _, done in body(self, done) }
    return try result.get()
  }

  // MARK: Sessions

  /// Opens a session, which nobody can reach until its endpoint is written.
  func open(_ outbox: UInt64 = 0xA, epoch: UInt64 = 1000, user: String = "bob") async throws -> SessionGrant {
    try await wait {
      $0.endpoints.openSession(
        user: user, outboxId: outbox, presentedDevice: 0, sendOnly: false, proposedEpoch: epoch, completion: $1)
    }
  }

  func level(_ grant: SessionGrant) async throws -> EndpointState {
    try await wait {
      $0.endpoints.writeEndpoint(
        user: "bob", device: grant.deviceNumber, epoch: grant.epoch, connectionId: 0x01AB, address: nil,
        transport: .tcp, since: 1_800_000_000_123, completion: $1)
    }
  }

  func leave(_ grant: SessionGrant) async throws -> Bool {
    try await wait {
      $0.endpoints.removeEndpoint(user: "bob", device: grant.deviceNumber, epoch: grant.epoch, completion: $1)
    }
  }

  /// What follows `state=` in each endpoint of bob.
  func states() async throws -> [String] {
    try await rig.hash("simp:endpoints:{u:bob}").values.map { String($0.split(separator: "=").last ?? "") }
  }

  // MARK: The inbox

  func append(
    _ order: UInt64, floor: UInt64 = 1, from: String = "alice", device: UInt32 = 1, payload: [UInt8] = [1, 2, 3],
    expires: UInt64 = 5000, to user: String = "bob", knownDead: UInt64 = 0, spilling: UInt64 = 0,
    follows: Bool = false, limits: InboxLimits = InboxLimits()
  ) async throws -> InboxAnswer {
    let answer: InboxAnswer = try await wait {
      $0.inbox.append(
        to: user,
        message: InboxMessage(
          from: from, device: device, order: order, floor: floor, payload: payload, expires: expires, follows: follows),
        knownDead: knownDead, spilling: spilling, limits: limits, completion: $1)
    }
    return answer.withoutName
  }

  /// Appends orders of one device, and gives back what became of each.
  func append(
    _ orders: ClosedRange<UInt64>, from: String = "alice", expires: UInt64 = 5000, to user: String = "bob"
  ) async throws -> [InboxAnswer] {
    var answers: [InboxAnswer] = []
    // In batches, each with its own deadlines: Redis may write every change to its file before it answers.
    for start in stride(from: orders.lowerBound, through: orders.upperBound, by: 50) {
      let batch = start...min(start + 49, orders.upperBound)
      let results: [Result<InboxAnswer, RedisError>] = try await rig.wait { _, done in
        var results: [Result<InboxAnswer, RedisError>] = []
        for order in batch {
          let message = InboxMessage(
            from: from, device: 1, order: order, floor: orders.lowerBound, payload: Array("\(order)".utf8),
            expires: expires)
          self.inbox.append(to: user, message: message, knownDead: 0, spilling: 0, limits: InboxLimits()) { result in
            results.append(result)
            if results.count == batch.count { done(results) }
          }
        }
      }
      answers += try results.map { try $0.get().withoutName }
    }
    return answers
  }

  func read(
    after: InboxEntry.ID? = nil, count: Int = 1000, bytes: Int = 1 << 20, user: String = "bob"
  ) async throws -> [InboxEntry] {
    try await wait { $0.inbox.read(user: user, after: after, count: count, bytes: bytes, completion: $1) }
  }

  func orders() async throws -> [UInt64] { try await read().map(\.order) }

  /// The clock of Redis.
  func milliseconds() async throws -> UInt64 {
    let words = try await rig.command(["TIME"]).elements?.compactMap { $0.text.flatMap { UInt64($0) } } ?? []
    try #require(words.count == 2)
    return words[0] * 1000 + words[1] / 1000
  }

  func remove(_ entries: [InboxEntry], user: String = "bob") async throws -> InboxRemoval {
    let ids = entries.map(\.id)
    return try await wait { $0.inbox.remove(user: user, entries: ids, completion: $1) }
  }

  func expire(now: UInt64, limit: Int = 100, user: String = "bob") async throws -> [UInt64] {
    let entries: [InboxEntry] = try await wait {
      $0.inbox.expire(user: user, now: now, limit: limit, completion: $1)
    }
    return entries.map(\.order)
  }

  func expiring(before: UInt64, limit: Int = 100) async throws -> [String] {
    try await wait { $0.inbox.expiring(before: before, limit: limit, completion: $1) }
  }

  /// The counts of bob's intake: all fields but those of devices.
  func counts() async throws -> [String: String] {
    try await rig.hash("simp:intake:{u:bob}").filter { !$0.key.hasPrefix("d:") }
  }
}

extension InboxAnswer {
  /// Stored, as whatever entry.
  static let added = InboxAnswer.stored(InboxEntry.ID(milliseconds: 0, sequence: 0), toStranger: false)

  var withoutName: InboxAnswer {
    if case .stored = self { .added } else { self }
  }
}
