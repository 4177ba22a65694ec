import Testing

@testable import SimpCore

@Suite struct ReceiptTests {
  private func encoded(_ receipt: Receipt) -> [UInt8] {
    var bytes: [UInt8] = []
    receipt.append(to: &bytes)
    return bytes
  }

  /// A receipt whose part (a) holds these fields.
  private func receipt(_ fields: (inout [UInt8]) -> Void) throws(WireError) -> Receipt {
    var bytes: [UInt8] = []
    bytes.appendField(1, message: fields)
    return try Receipt(reading: bytes.span)
  }

  @Test func roundTrip() throws {
    for seed: UInt64 in 1...200 {
      var random = Seeded(seed)
      var receipt = Receipt()
      var upper = seed == 1 ? UInt64.max : random.next() >> (random.next() % 60)
      var ranges: [ClosedRange<UInt64>] = []
      for _ in 0..<Int(random.next() % 32) + 1 {
        let lower = upper - min(upper, random.next() % 50)
        ranges.append(lower...upper)
        guard lower > 60 else { break }
        upper = lower - 2 - random.next() % 50
      }
      receipt.datagrams = DatagramReceipt(
        ranges: ranges, delay: .microseconds(Int64(random.next() % 100_000)), answered: [ranges[0].upperBound])
      for order in 0..<random.next() % 5 {
        receipt.outcomes.append(
          Outcome(
            .later, user: "bob", device: 9, orders: [order...order + 5, 100...100], code: .notOnline,
            retryAfterMilliseconds: 1000))
      }
      receipt.roomMessages = 5
      receipt.roomBytes = 1 << 40
      let bytes = encoded(receipt)
      #expect(try Receipt(reading: bytes.span) == receipt, "seed \(seed)")
    }
  }

  /// Part (a) with these numbers, be they sensible or not.
  private func part(largest: UInt64, runs: [UInt64], gaps: [UInt64] = [], answered: [UInt64] = []) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.appendField(1, varint: largest)
    for (number, values) in [(3, runs), (4, gaps), (5, answered)] as [(UInt32, [UInt64])] {
      bytes.appendField(number, packed: values)
    }
    return bytes
  }

  @Test func hostileRanges() {
    let ones = [UInt64](repeating: 1, count: 64)
    let cases: [(String, [UInt8])] = [
      ("no runs", part(largest: 5, runs: [])),
      ("a run below 0", part(largest: 5, runs: [7])),
      ("a run of nothing", part(largest: 5, runs: [0])),
      ("a run of all numbers", part(largest: 5, runs: [.max])),
      ("a gap of 0", part(largest: 9, runs: [1, 1], gaps: [0])),
      ("a gap to below 0", part(largest: 9, runs: [1, 1], gaps: [9])),
      ("a gap that wraps", part(largest: 9, runs: [1, 1], gaps: [.max])),
      ("as many gaps as runs", part(largest: 99, runs: [1, 1], gaps: [1, 1])),
      ("33 runs", part(largest: 999, runs: Array(ones.prefix(33)), gaps: Array(ones.prefix(32)))),
      ("65 answered", part(largest: 999, runs: [1], answered: ones + [1])),
      ("a wrong kind", [0x09, 5, 0, 0, 0, 0, 0, 0, 0]),
    ]
    for (name, bytes) in cases {
      #expect(throws: WireError.malformed, "\(name)") { try receipt { $0 += bytes } }
    }
    #expect(throws: Never.self) { try receipt { $0 += part(largest: 5, runs: [6]) } }
    #expect(throws: Never.self) { try receipt { $0 += part(largest: 9, runs: [1, 1], gaps: [8]) } }
  }

  @Test func hostileOutcomes() {
    let cases: [(String, [UInt8], WireError)] = [
      ("an odd number of orders", [0x12, 1, 0x61, 0x22, 1, 5], .malformed),
      ("a count of 0", [0x12, 1, 0x61, 0x22, 2, 5, 0], .malformed),
      ("a range that wraps", [0x12, 1, 0x61, 0x22, 11, 5] + [UInt8](repeating: 0xFF, count: 9) + [1], .malformed),
      ("a name outside the grammar", [0x12, 1, 0x20, 0x22, 2, 1, 1], .nameInvalid),
      ("an empty name", [0x12, 0, 0x22, 2, 1, 1], .nameInvalid),
    ]
    for (name, bytes, error) in cases {
      var packet: [UInt8] = []
      packet.appendField(2, bytes: bytes)
      #expect(throws: error, "\(name)") { try Receipt(reading: packet.span) }
    }
  }

  @Test func moreOutcomesThanTheLimit() {
    var bytes: [UInt8] = []
    let outcome = Outcome(.accepted, user: "a", orders: [1...1])
    for _ in 0...WireLimits.maximumOutcomes { bytes.appendField(2, message: outcome.append) }
    #expect(throws: WireError.malformed) { try Receipt(reading: bytes.span) }
  }

  /// Newer states and codes pass as numbers; they change nothing here.
  @Test func anUnknownStateIsNoError() throws {
    let bytes: [UInt8] = [0x12, 9, 0x08, 99, 0x12, 1, 0x61, 0x22, 2, 1, 1]
    let receipt = try Receipt(reading: bytes.span)
    #expect(receipt.outcomes[0].state == .unspecified && receipt.outcomes[0].orders == [1...1])
  }

  @Test func packedOrNotIsTheSame() throws {
    let receipt = try receipt { $0 += [0x08, 9, 0x18, 2, 0x18, 3, 0x20, 4] }
    #expect(receipt.datagrams?.ranges == [8...9, 1...3])
  }
}
