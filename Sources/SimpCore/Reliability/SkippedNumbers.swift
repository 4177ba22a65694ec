/// Packet numbers that were left out on purpose (RFC 9000, section 21.4). A peer that receipts datagrams which it did not
/// receive, so that we send faster than its path bears, sooner or later names one of them.
struct SkippedNumbers {
  private var seed: UInt64?
  private var next = UInt64.max
  /// Mean distance of two of them: 256 at first, doubling, so that a long session hardly notices.
  private var period: UInt64 = 256
  // BOUND: the last four. A receipt of a liar reaches back over them, an honest one never names them.
  private var recent: [UInt64] = []

  private static let maximumPeriod: UInt64 = 131_072

  mutating func begin(seed: UInt64, at number: UInt64) {
    self.seed = seed
    choose(after: number)
  }

  /// Whether this number is to be left out; it is then noted.
  mutating func skips(_ number: UInt64) -> Bool {
    guard number >= next else { return false }
    recent.append(number)
    if recent.count > 4 { recent.removeFirst() }
    period = min(period * 2, Self.maximumPeriod)
    choose(after: number)
    return true
  }

  func isNamed(by receipt: DatagramReceipt) -> Bool {
    recent.contains { number in receipt.ranges.contains { $0.contains(number) } }
  }

  private mutating func choose(after number: UInt64) {
    guard let seed else { return }
    let drawn = (seed ^ number) &* 0x9E37_79B9_7F4A_7C15
    self.seed = drawn ^ drawn >> 29 &* 0xBF58_476D_1CE4_E5B9
    next = number + 1 + (drawn >> 32) % period
  }
}
