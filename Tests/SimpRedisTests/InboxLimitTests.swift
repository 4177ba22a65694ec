import SimpCore
import SimpIO
import Testing

@testable import SimpRedis

@Suite(.serialized) struct InboxLimitTests {
  private static func limits(_ change: (inout InboxLimits) -> Void) -> InboxLimits {
    var limits = InboxLimits()
    change(&limits)
    return limits
  }

  @Test func messages() async throws {
    let rig = try await InboxRig()
    _ = try await rig.open()
    let limits = Self.limits { $0.messages = 2 }
    #expect(try await rig.append(1, limits: limits) == .added)
    #expect(try await rig.append(2, from: "carol", limits: limits) == .added)
    #expect(try await rig.append(3, limits: limits) == .full(.messages))
    // What is there already is said to be there; nothing of it is trimmed.
    #expect(try await rig.append(1, limits: limits) == .duplicate)
    #expect(try await rig.orders() == [1, 2])
    #expect(try await rig.remove([rig.read()[0]]) == InboxRemoval(removed: 1, left: 1))
    #expect(try await rig.append(3, limits: limits) == .added)
    #expect(try await rig.append(4, limits: limits) == .full(.messages))
    await rig.close()
  }

  /// Each message counts its payload and 64 bytes: here 100.
  @Test func bytesOfAllAndOfASender() async throws {
    let rig = try await InboxRig()
    _ = try await rig.open()
    let limits = Self.limits {
      $0.bytes = 399
      $0.senderBytes = 200
    }
    let payload = [UInt8](repeating: 1, count: 36)
    #expect(try await rig.append(1, payload: payload, limits: limits) == .added)
    #expect(try await rig.append(2, device: 2, payload: payload, limits: limits) == .added)
    // One sender, whichever device.
    #expect(try await rig.append(3, device: 3, payload: [], limits: limits) == .full(.senderBytes))
    #expect(try await rig.append(1, from: "carol", payload: payload, limits: limits) == .added)
    #expect(try await rig.append(2, from: "carol", payload: payload, limits: limits) == .full(.bytes))
    #expect(try await rig.append(2, from: "carol", payload: Array(payload.dropLast()), limits: limits) == .added)
    #expect(
      try await rig.counts() == [
        "messages": "4", "bytes": "399", "senders": "3", "b:alice": "200", "b:carol": "199",
      ])

    #expect(try await rig.remove([rig.read()[1]]) == InboxRemoval(removed: 1, left: 3))
    #expect(try await rig.append(3, device: 3, payload: payload, limits: limits) == .added)
    #expect(try await rig.append(3, device: 2, payload: [], limits: limits) == .full(.bytes))
    await rig.close()
  }

  @Test func aStrangerHasASmallInbox() async throws {
    let rig = try await InboxRig()
    // A login that only sends is no login of somebody who reads.
    let sender: Result<SessionGrant, RedisError> = try await rig.rig.wait { _, done in
      rig.endpoints.openSession(
        user: "bob", outboxId: 1, presentedDevice: 0, sendOnly: true, proposedEpoch: 1, completion: done)
    }
    #expect(try sender.get().epoch == 0)
    let answers = try await rig.append(1...101)
    #expect(answers == Array(repeating: .added, count: 100) + [.full(.strangerMessages)])
    _ = try await rig.open()
    #expect(try await rig.append(101) == .added)
    #expect(try await rig.orders() == Array(1...101))
    await rig.close()
  }

  @Test func rangesOfASender() async throws {
    let rig = try await InboxRig()
    _ = try await rig.open()
    let limits = Self.limits { $0.ranges = 2 }
    #expect(try await rig.append(1, limits: limits) == .added)
    #expect(try await rig.append(5, limits: limits) == .added)
    #expect(try await rig.append(3, limits: limits) == .full(.ranges))
    #expect(try await rig.append(9, device: 2, limits: limits) == .added)
    // What joins ranges needs no further one, nor does what a floor makes room for.
    #expect(try await rig.append(2, limits: limits) == .added)
    #expect(try await rig.append(9, floor: 3, limits: limits) == .added)
    #expect(try await rig.rig.hash("simp:intake:{u:bob}")["d:alice 1"] == "4 3 5-5,9-9")
    await rig.close()
  }

  @Test func devicesOfSenders() async throws {
    let rig = try await InboxRig()
    _ = try await rig.open()
    let limits = Self.limits { $0.senderDevices = 3 }
    for device in UInt32(1)...3 { #expect(try await rig.append(1, device: device, limits: limits) == .added) }
    #expect(try await rig.append(1, device: 4, limits: limits) == .full(.senderDevices))
    #expect(try await rig.append(2, device: 3, limits: limits) == .added)

    // Those with nothing in the inbox go, the one that has been so for longest first.
    let entries = try await rig.read()
    #expect(try await rig.remove([entries[1]]) == InboxRemoval(removed: 1, left: 3))
    #expect(try await rig.rig.command(["ZINCRBY", "simp:idle:{u:bob}", "-10", "d:alice 2"]) != .null)
    #expect(try await rig.remove([entries[0]]) == InboxRemoval(removed: 1, left: 2))
    #expect(try await rig.append(1, device: 4, limits: limits) == .added)
    #expect(try await rig.append(1, device: 1, limits: limits) == .duplicate)
    #expect(try await rig.append(1, device: 5, limits: limits) == .added)
    #expect(try await rig.append(1, device: 6, limits: limits) == .full(.senderDevices))
    let fields = try await rig.rig.hash("simp:intake:{u:bob}")
    #expect(fields.keys.filter { $0.hasPrefix("d:") }.sorted() == ["d:alice 3", "d:alice 4", "d:alice 5"])
    #expect(fields["senders"] == "3")
    #expect(try await rig.rig.command(["ZCARD", "simp:idle:{u:bob}"]) == .integer(0))
    await rig.close()
  }

  /// One that was idle and has something again does not go.
  @Test func aDeviceThatIsBackStays() async throws {
    let rig = try await InboxRig()
    _ = try await rig.open()
    let limits = Self.limits { $0.senderDevices = 1 }
    #expect(try await rig.append(1, limits: limits) == .added)
    #expect(try await rig.remove(rig.read()) == InboxRemoval(removed: 1, left: 0))
    #expect(try await rig.append(2, limits: limits) == .added)
    #expect(try await rig.append(1, device: 2, limits: limits) == .full(.senderDevices))
    #expect(try await rig.append(1, limits: limits) == .duplicate)
    await rig.close()
  }
}
