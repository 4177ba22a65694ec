import SimpCore
import SimpIO
import Testing

@testable import SimpRedis

/// A server, a link and a directory, with its calls made to wait. The marks are for alice's device 1, of her messages to
/// bob, unless it is said.
final class MarkRig: @unchecked Sendable {
  let redis: TestRedis
  let rig: RedisRig
  /// Touched on the loop only.
  private(set) var onLoop: MarkDirectory!

  init() async throws {
    redis = try TestRedis()
    rig = try RedisRig(address: redis.address)
    await rig.run { rig in self.onLoop = MarkDirectory(link: rig.link) }
    try await rig.startAndWait()
  }

  func close() async {
    await rig.run { _ in self.onLoop = nil }
    await rig.close()
  }

  private func wait<Value: Sendable>(
    _ body: @escaping @Sendable (MarkDirectory, @escaping (Result<Value, RedisError>) -> Void) -> Void
  ) async throws -> Value {
    let result: Result<Value, RedisError> = try await rig.wait { _, done in body(self.onLoop, done) }
    return try result.get()
  }

  func mark(
    _ state: MarkState, _ orders: [ClosedRange<UInt64>], device: UInt32 = 1, recipient: String = "bob",
    sender: String = "alice"
  ) async throws -> UInt64 {
    try await wait {
      $0.mark(
        sender: sender, device: device, recipient: recipient, state: state, orders: orders, completion: $1)
    }
  }

  func marks(device: UInt32 = 1, sender: String = "alice") async throws -> Set<MarkSet> {
    try await Set(wait { $0.marks(sender: sender, device: device, completion: $1) })
  }

  func confirmMarks(
    _ state: MarkState, _ orders: [ClosedRange<UInt64>], device: UInt32 = 1, recipient: String = "bob",
    sender: String = "alice"
  ) async throws -> UInt64 {
    try await wait {
      $0.confirmMarks(
        sender: sender, device: device, recipient: recipient, state: state, orders: orders, completion: $1)
    }
  }
}

@Suite(.serialized) struct MarkTests {
  private func set(_ state: MarkState, _ orders: [ClosedRange<UInt64>], recipient: String = "bob") -> MarkSet {
    MarkSet(recipient: recipient, state: state, orders: orders)
  }

  @Test func marksAreUnited() async throws {
    let rig = try await MarkRig()
    #expect(try await rig.marks() == [])
    #expect(try await rig.mark(.delivered, [5...7]) == 0)
    #expect(try await rig.mark(.delivered, [20...20, 10...11, 11...12]) == 0)
    #expect(try await rig.marks() == [set(.delivered, [5...7, 10...12, 20...20])])
    // Overlapping, adjacent at either side, within, and over several.
    #expect(try await rig.mark(.delivered, [3...5]) == 0)
    #expect(try await rig.mark(.delivered, [13...13]) == 0)
    #expect(try await rig.mark(.delivered, [19...19, 11...11]) == 0)
    #expect(try await rig.marks() == [set(.delivered, [3...7, 10...13, 19...20])])
    #expect(try await rig.mark(.delivered, [6...19]) == 0)
    #expect(try await rig.marks() == [set(.delivered, [3...20])])
    let top = UInt64(1) << 40
    #expect(try await rig.mark(.delivered, [(top - 3)...(top - 3), (top - 1)...(top - 1), 0...0]) == 0)
    #expect(try await rig.marks() == [set(.delivered, [0...0, 3...20, (top - 3)...(top - 3), (top - 1)...(top - 1)])])
    await rig.close()
  }

  @Test func eachDeviceHasItsOwn() async throws {
    let rig = try await MarkRig()
    #expect(try await rig.mark(.delivered, [1...1]) == 0)
    #expect(try await rig.mark(.expired, [2...2]) == 0)
    #expect(try await rig.mark(.delivered, [3...3], recipient: "bobby") == 0)
    #expect(try await rig.mark(.delivered, [4...4], device: 11) == 0)
    #expect(try await rig.mark(.delivered, [5...5], device: 0xFF_FFFF) == 0)
    #expect(try await rig.mark(.delivered, [6...6], sender: "alic") == 0)
    #expect(
      try await rig.marks() == [
        set(.delivered, [1...1]), set(.expired, [2...2]), set(.delivered, [3...3], recipient: "bobby"),
      ])
    #expect(try await rig.marks(device: 11) == [set(.delivered, [4...4])])
    #expect(try await rig.marks(device: 0xFF_FFFF) == [set(.delivered, [5...5])])
    #expect(try await rig.marks(device: 111) == [])
    #expect(try await rig.marks(sender: "alic") == [set(.delivered, [6...6])])
    await rig.close()
  }

  @Test func whatIsReadIsDelivered() async throws {
    let rig = try await MarkRig()
    #expect(try await rig.mark(.delivered, [1...10, 20...20]) == 0)
    #expect(try await rig.mark(.read, [3...4, 8...12]) == 0)
    #expect(
      try await rig.marks() == [set(.delivered, [1...2, 5...7, 20...20]), set(.read, [3...4, 8...12])])
    // The word of delivery that comes late is not needed.
    #expect(try await rig.mark(.delivered, [4...4, 7...9, 12...13]) == 0)
    #expect(
      try await rig.marks() == [set(.delivered, [1...2, 5...7, 13...13, 20...20]), set(.read, [3...4, 8...12])])
    #expect(try await rig.mark(.read, [0...30]) == 0)
    #expect(try await rig.mark(.delivered, [2...3]) == 0)
    #expect(try await rig.marks() == [set(.read, [0...30])])
    // Another recipient's, and what expired, stay out of it.
    #expect(try await rig.mark(.delivered, [5...5], recipient: "carol") == 0)
    #expect(try await rig.mark(.expired, [5...5]) == 0)
    #expect(
      try await rig.marks() == [
        set(.read, [0...30]), set(.delivered, [5...5], recipient: "carol"), set(.expired, [5...5]),
      ])
    await rig.close()
  }

  @Test func whatWasToldGoes() async throws {
    let rig = try await MarkRig()
    #expect(try await rig.confirmMarks(.delivered, [1...5]) == 0)
    #expect(try await rig.mark(.delivered, [1...10, 20...30]) == 0)
    #expect(try await rig.confirmMarks(.read, [1...10]) == 0)
    #expect(try await rig.confirmMarks(.delivered, [1...10], device: 2) == 0)
    #expect(try await rig.confirmMarks(.delivered, [4...5, 5...6, 9...21, 40...50]) == 7)
    #expect(try await rig.marks() == [set(.delivered, [1...3, 7...8, 22...30])])
    #expect(try await rig.confirmMarks(.delivered, [4...5, 5...6, 9...21, 40...50]) == 0)
    // What was marked while the device was told the rest stays.
    #expect(try await rig.mark(.delivered, [100...100]) == 0)
    #expect(try await rig.confirmMarks(.delivered, [0...30]) == 14)
    #expect(try await rig.marks() == [set(.delivered, [100...100])])
    #expect(try await rig.confirmMarks(.delivered, [0...((1 << 40) - 1)]) == 1)
    #expect(try await rig.rig.command(["EXISTS", "simp:marks:{u:alice}"]) == .integer(0))
    await rig.close()
  }

  @Test func rangesOfAFieldAreBounded() async throws {
    let rig = try await MarkRig()
    let ranges = (1...UInt64(64)).map { (10 * $0)...(10 * $0 + 1) }
    #expect(try await rig.mark(.delivered, ranges.reversed()) == 0)
    #expect(try await rig.marks() == [set(.delivered, ranges)])
    // The oldest go, and nothing is said of those between.
    #expect(try await rig.mark(.delivered, [1000...1000, 2000...2000, 3000...3000]) == 6)
    #expect(
      try await rig.marks() == [set(.delivered, ranges.dropFirst(3) + [1000...1000, 2000...2000, 3000...3000])])
    #expect(try await rig.mark(.delivered, [5...5]) == 1)
    let many = (1...UInt64(1000)).map { (5000 + 2 * $0)...(5000 + 2 * $0) }
    #expect(try await rig.mark(.expired, many) == 936)
    #expect(try await rig.marks().contains(set(.expired, Array(many.suffix(64)))))
    await rig.close()
  }

  @Test func fieldsOfAUserAreBounded() async throws {
    let rig = try await MarkRig()
    let limit = MarkDirectory.maximumFields
    // Device 10 has more than half of them, 9 the rest: by number, not by text, 9 goes first.
    for start in stride(from: 0, to: limit, by: 256) {
      let _: Bool = try await rig.rig.wait { _, done in
        var answered = 0
        for index in start..<start + 256 {
          rig.onLoop.mark(
            sender: "alice", device: index < 512 ? 9 : 10, recipient: "r\(index)", state: .delivered, orders: [1...3]
          ) { result in
            answered += (try? result.get()) == 0 ? 1 : 0
            if answered == 256 { done(true) }
          }
        }
      }
    }
    let key: RedisArgument = "simp:marks:{u:alice}"
    #expect(try await rig.rig.command(["HLEN", key]) == .integer(Int64(limit)))
    // A field that is there needs no room; a further one makes it, an eighth at once.
    #expect(try await rig.mark(.delivered, [7...7], device: 9, recipient: "r0") == 0)
    #expect(try await rig.mark(.delivered, [1...1], device: 8) == UInt64(512 * 3 + 1))
    #expect(try await rig.rig.command(["HLEN", key]) == .integer(Int64(limit - 512 + 1)))
    #expect(try await rig.marks(device: 9) == [])
    #expect(try await rig.marks(device: 10).count == limit - 512)
    #expect(try await rig.marks(device: 8) == [set(.delivered, [1...1])])
    await rig.close()
  }

  @Test func marksStandForTheirTime() async throws {
    let rig = try await MarkRig()
    let key: RedisArgument = "simp:marks:{u:alice}"
    #expect(try await rig.mark(.read, [1...2]) == 0)
    #expect(try await rig.rig.command(["PEXPIRE", key, "60000"]) == .integer(1))
    #expect(try await rig.mark(.read, [5...5]) == 0)
    let left = try await rig.rig.command(["PTTL", key]).integer ?? 0
    #expect(left > 29 * 86_400_000 && left <= Int64(MarkDirectory.memoryMilliseconds))
    await rig.close()
  }
}
