import SimpCore
import SimpIO
import Testing

@testable import SimpRedis

/// What goes into an inbox, what comes out, and what is a copy.
@Suite(.serialized) struct InboxTests {
  @Test func whatGoesInComesOutInOrder() async throws {
    let rig = try await InboxRig()
    let any: [UInt8] = Array(0...255) + Array("\r\n$3\r\n".utf8)
    #expect(try await rig.append(7, floor: 5, payload: any, expires: (1 << 53) - 1) == .added)
    #expect(try await rig.append(3, from: "x.Y_z@-", device: 0xFF_FFFF, payload: []) == .added)
    #expect(try await rig.append((1 << 40) - 1, floor: (1 << 40) - 1) == .added)
    let entries = try await rig.read()
    #expect(entries.map(\.from) == ["alice", "x.Y_z@-", "alice"])
    #expect(entries.map(\.device) == [1, 0xFF_FFFF, 1])
    #expect(entries.map(\.order) == [7, 3, (1 << 40) - 1])
    #expect(entries.map(\.payload) == [any, [], [1, 2, 3]])
    #expect(entries.map(\.expires) == [(1 << 53) - 1, 5000, 5000])
    #expect(entries.map(\.id) == entries.map(\.id).sorted())
    #expect(try await rig.read(after: entries[0].id) == Array(entries.dropFirst()))
    #expect(try await rig.read(after: entries[2].id) == [])
    #expect(try await rig.read(count: 2) == Array(entries.prefix(2)))
    #expect(try await rig.read(user: "nobody") == [])
    await rig.close()
  }

  @Test func aReadIsBoundedInBytes() async throws {
    let rig = try await InboxRig()
    for order in UInt64(1)...3 {
      #expect(try await rig.append(order, payload: Array(repeating: 7, count: 1000)) == .added)
    }
    #expect(try await rig.read(bytes: 1).map(\.order) == [1])
    #expect(try await rig.read(bytes: 2000).map(\.order) == [1, 2])
    #expect(try await rig.read(bytes: 2999).map(\.order) == [1, 2])
    #expect(try await rig.read(bytes: 3000).map(\.order) == [1, 2, 3])
    await rig.close()
  }

  /// More than the script reads at once, and than Redis keeps in one node of the stream.
  @Test func aLongInboxIsReadInParts() async throws {
    let rig = try await InboxRig()
    _ = try await rig.open()
    #expect(try await rig.append(1...500).allSatisfy { $0 == .added })
    #expect(try await rig.orders() == Array(1...500))
    var seen: [InboxEntry] = []
    while case let next = try await rig.read(after: seen.last?.id, count: 77), !next.isEmpty { seen += next }
    #expect(seen.map(\.order) == Array(1...500))
    #expect(seen.map { String(decoding: $0.payload, as: UTF8.self) } == (1...500).map { "\($0)" })
    await rig.close()
  }

  @Test func aCopyIsNotTakenTwice() async throws {
    let rig = try await InboxRig()
    for order in [5, 6, 9, 7, 3] as [UInt64] { #expect(try await rig.append(order) == .added) }
    for order in [5, 6, 9, 7, 3] as [UInt64] { #expect(try await rig.append(order) == .duplicate, "\(order)") }
    for order in [4, 8, 10] as [UInt64] { #expect(try await rig.append(order) == .added, "\(order)") }
    // Another device, another sender and another recipient have orders of their own.
    #expect(try await rig.append(5, device: 2) == .added)
    #expect(try await rig.append(5, from: "alic") == .added)
    #expect(try await rig.append(5, to: "carol") == .added)
    #expect(try await rig.orders() == [5, 6, 9, 7, 3, 4, 8, 10, 5, 5])
    #expect(try await rig.rig.hash("simp:intake:{u:bob}")["d:alice 1"] == "8 1 3-10")
    await rig.close()
  }

  @Test func belowTheFloorAllIsACopy() async throws {
    let rig = try await InboxRig()
    #expect(try await rig.append(10, floor: 2) == .added)
    #expect(try await rig.append(20, floor: 2) == .added)
    #expect(try await rig.append(30, floor: 15) == .added)
    // 10 is under the floor of 15; so is 14, which never was here.
    #expect(try await rig.rig.hash("simp:intake:{u:bob}")["d:alice 1"] == "3 15 20-20,30-30")
    for order in [10, 14, 2] as [UInt64] { #expect(try await rig.append(order) == .duplicate, "\(order)") }
    // An older datagram with an older floor changes nothing.
    #expect(try await rig.append(15, floor: 2) == .added)
    #expect(try await rig.rig.hash("simp:intake:{u:bob}")["d:alice 1"] == "4 15 15-15,20-20,30-30")
    #expect(try await rig.append(20, floor: 2) == .duplicate)
    await rig.close()
  }

  /// The largest orders, one apart: doubles must not blur them, nor Lua's own conversion to text.
  @Test func theLargestOrdersAreToldApart() async throws {
    let rig = try await InboxRig()
    let top = UInt64(1) << 40
    #expect(try await rig.append(top - 3, floor: top - 4) == .added)
    #expect(try await rig.append(top - 1, floor: top - 4) == .added)
    #expect(try await rig.append(top - 3, floor: top - 4) == .duplicate)
    #expect(try await rig.append(top - 4, floor: top - 4) == .added)
    #expect(try await rig.append(top - 5, floor: top - 5) == .duplicate)
    #expect(try await rig.append(top - 2, floor: top - 4) == .added)
    #expect(
      try await rig.rig.hash("simp:intake:{u:bob}")["d:alice 1"] == "4 \(top - 4) \(top - 4)-\(top - 1)")
    await rig.close()
  }

  @Test func whatIsConfirmedIsGoneAndStaysKnown() async throws {
    let rig = try await InboxRig()
    _ = try await rig.open()
    for order in UInt64(1)...4 { #expect(try await rig.append(order) == .added) }
    #expect(try await rig.append(1, from: "carol") == .added)
    let entries = try await rig.read()
    #expect(try await rig.remove([entries[1], entries[2]]) == InboxRemoval(removed: 2, left: 3))
    #expect(try await rig.read() == [entries[0], entries[3], entries[4]])
    // Again, and one of them twice in one call: each is counted once.
    #expect(
      try await rig.remove([entries[1], entries[3], entries[3]])
        == InboxRemoval(removed: 1, left: 2))
    #expect(
      try await rig.counts() == [
        "messages": "2", "bytes": "134", "senders": "2", "b:alice": "67", "b:carol": "67",
      ])
    for order in UInt64(1)...4 { #expect(try await rig.append(order) == .duplicate) }
    #expect(try await rig.append(5) == .added)

    #expect(try await rig.remove(rig.read()) == InboxRemoval(removed: 3, left: 0))
    #expect(try await rig.counts() == ["messages": "0", "bytes": "0", "senders": "2"])
    #expect(try await rig.append(5) == .duplicate)
    #expect(try await rig.append(1, from: "carol") == .duplicate)
    #expect(try await rig.read() == [])
    #expect(try await rig.remove([]) == InboxRemoval(removed: 0, left: 0))
    await rig.close()
  }

  /// What a device had before another logged in, it had.
  @Test func anOldSessionConfirmsWhatItHad() async throws {
    let rig = try await InboxRig()
    _ = try await rig.open(0xA)
    #expect(try await rig.append(1...2).allSatisfy { $0 == .added })
    let entries = try await rig.read()
    let new = try await rig.open(0xB)
    #expect(try await rig.level(new) == .catchingUp)
    #expect(try await rig.remove([entries[0]]) == InboxRemoval(removed: 1, left: 1))
    #expect(try await rig.read() == [entries[1]])
    await rig.close()
  }

  @Test func aRemovalCountsOnce() async throws {
    let rig = try await InboxRig()
    _ = try await rig.open()
    for order in UInt64(1)...3 { #expect(try await rig.append(order) == .added) }
    let entries = try await rig.read()
    #expect(try await rig.remove(Array(entries.prefix(2))) == InboxRemoval(removed: 2, left: 1))
    #expect(try await rig.remove(Array(entries.prefix(2))) == InboxRemoval(removed: 0, left: 1))
    // Its device has confirmed it while the notice that it is over was written.
    #expect(try await rig.remove([entries[2]]) == InboxRemoval(removed: 1, left: 0))
    #expect(try await rig.remove([entries[2]]) == InboxRemoval(removed: 0, left: 0))
    #expect(try await rig.counts() == ["messages": "0", "bytes": "0", "senders": "1"])
    #expect(try await rig.append(1) == .duplicate)
    await rig.close()
  }

  /// An id never comes again, also when the inbox was empty in between: whoever reads on from the last one misses
  /// nothing.
  @Test func idsGoOnAfterAnEmptyInbox() async throws {
    let rig = try await InboxRig()
    _ = try await rig.open()
    #expect(try await rig.append(1) == .added)
    // As if the clock of Redis had been far ahead.
    let ahead = InboxEntry.ID(milliseconds: 1 << 50, sequence: 5)
    let words: [RedisArgument] = [
      "XADD", "simp:inbox:{u:bob}", RedisArgument(ahead.description), "f", "alice", "d", "1", "o", "2", "x", "9", "p",
      "",
    ]
    #expect(try await rig.rig.command(words).text == ahead.description)
    let first = try await rig.read()
    #expect(first.map(\.order) == [1, 2])
    #expect(try await rig.remove(first) == InboxRemoval(removed: 2, left: 0))
    #expect(try await rig.append(3) == .added)
    let second = try await rig.read(after: ahead)
    #expect(second.map(\.order) == [3])
    #expect(second.first?.id == InboxEntry.ID(milliseconds: 1 << 50, sequence: 6))
    await rig.close()
  }

  @Test func anEmptyInboxIsForgottenInTime() async throws {
    let rig = try await InboxRig()
    _ = try await rig.open()
    let keys = ["inbox", "intake", "idle"].map { RedisArgument("simp:\($0):{u:bob}") }
    #expect(try await rig.append(1) == .added)
    #expect(try await rig.remove(rig.read()) == InboxRemoval(removed: 1, left: 0))
    for key in keys {
      let left = try await rig.rig.command(["PTTL", key]).integer ?? 0
      #expect(left > 29 * 86_400_000 && left <= Int64(InboxDirectory.memoryMilliseconds), "\(key)")
    }
    // Another device, so that all three go on.
    #expect(try await rig.append(1, device: 2) == .added)
    for key in keys { #expect(try await rig.rig.command(["PTTL", key]) == .integer(-1), "\(key)") }
    await rig.close()
  }
}
