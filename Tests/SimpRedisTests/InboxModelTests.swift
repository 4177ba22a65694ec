import SimpCore
import SimpIO
import Testing

@testable import SimpRedis

/// An inbox as it should be, without Redis.
private struct InboxModel {
  struct Endpoint {
    var epoch: UInt64
    var isLive: Bool
  }

  struct Sender {
    var floor: UInt64 = 0
    var seen: Set<UInt64> = []
  }

  var entries: [(device: UInt32, order: UInt64)] = []
  var senders: [UInt32: Sender] = [:]
  var endpoint: Endpoint?
  var epoch: UInt64 = 0

  mutating func append(
    device: UInt32, order: UInt64, floor: UInt64, knownDead: UInt64, spilling: UInt64, follows: Bool
  ) -> InboxAnswer {
    if let endpoint, endpoint.isLive, endpoint.epoch > max(knownDead, spilling) {
      return .live(node: "node-1", epoch: endpoint.epoch)
    }
    var sender = senders[device, default: Sender()]
    if order < sender.floor || sender.seen.contains(order) { return .duplicate }
    let lowest = max(sender.floor, floor)
    if follows, order > lowest, !sender.seen.contains(order - 1) { return .gap }
    sender.floor = lowest
    sender.seen.insert(order)
    senders[device] = sender
    entries.append((device, order))
    endpoint?.isLive = false
    return .added
  }

  mutating func level(_ session: UInt64) -> EndpointState {
    if epoch > session { return .superseded }
    endpoint = Endpoint(epoch: session, isLive: entries.isEmpty)
    return entries.isEmpty ? .live : .catchingUp
  }

  mutating func leave(_ session: UInt64) -> Bool {
    guard endpoint?.epoch == session else { return false }
    endpoint = nil
    return true
  }

  /// - Parameter count: how many from the head.
  mutating func remove(_ count: Int) -> InboxRemoval {
    entries.removeFirst(count)
    return InboxRemoval(removed: count, left: entries.count)
  }
}

private struct Seeded: RandomNumberGenerator {
  var state: UInt64

  /// SplitMix64.
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}

/// Any order of logins, spills, appends, confirmations and ends: each answer as the model gives it.
@Suite(.serialized) struct InboxModelTests {
  @Test(arguments: [1, 2, 3, 4] as [UInt64])
  func anyOrderOfCalls(seed: UInt64) async throws {
    var random = Seeded(state: seed)
    let rig = try await InboxRig()
    var model = InboxModel()
    var sessions: [SessionGrant] = []
    /// Around where the conversation is, so that copies and gaps are frequent.
    var next: UInt64 = 1

    for step in 1...400 {
      let context: Comment = "seed \(seed), step \(step)"
      let session = sessions.suffix(3).randomElement(using: &random)
      let epochs: [UInt64] = [0, 0] + sessions.suffix(3).map(\.epoch)
      switch Int.random(in: 0..<20, using: &random) {
      case 0:
        let grant = try await rig.open(UInt64(sessions.count % 3))
        #expect(grant.epoch > model.epoch, context)
        model.epoch = grant.epoch
        sessions.append(grant)
      case 1...3:
        guard let session else { continue }
        #expect(try await rig.level(session) == model.level(session.epoch), context)
      case 4:
        guard let session else { continue }
        #expect(try await rig.leave(session) == model.leave(session.epoch), context)
      case 5...9:
        let count = Int.random(in: 0...model.entries.count, using: &random)
        let head = Array(try await rig.read().prefix(count))
        let expected = model.remove(count)
        #expect(try await rig.remove(head) == expected, context)
        // The same word again, as after a lost reply.
        let again = model.remove(0)
        #expect(try await rig.remove(head) == again, context)
      default:
        let device = UInt32.random(in: 1...2, using: &random)
        let order = UInt64.random(in: (next > 6 ? next - 6 : 1)...next + 3, using: &random)
        let floor = UInt64.random(in: (order > 8 ? order - 8 : 0)...order, using: &random)
        next = max(next, order)
        let dead = epochs.randomElement(using: &random) ?? 0
        let spilling = epochs.randomElement(using: &random) ?? 0
        let follows = Bool.random(using: &random)
        let expected = model.append(
          device: device, order: order, floor: floor, knownDead: dead, spilling: spilling, follows: follows)
        let answer = try await rig.append(
          order, floor: floor, device: device, knownDead: dead, spilling: spilling, follows: follows)
        #expect(answer == expected, context)
      }

      let states = try await rig.states()
      #expect(states == (model.endpoint.map { [$0.isLive ? "live" : "catching"] } ?? []), context)
      let entries = try await rig.read()
      #expect(entries.map(\.order) == model.entries.map(\.order), context)
      #expect(entries.map(\.device) == model.entries.map(\.device), context)
      #expect(entries.isEmpty || states != ["live"], context)
      #expect(try await Int(rig.counts()["messages"] ?? "0") == entries.count, context)
      #expect(try await Int(rig.counts()["bytes"] ?? "0") == 67 * entries.count, context)
    }
    #expect(next > 20, "the calls lead somewhere")
    await rig.close()
  }
}
