/// Counts of times in nanoseconds, in buckets that grow with the value: 128 in each power of two, so that a percentile
/// is off by less than 0.4 %. Values up to 255 ns are exact; none is too large.
struct Histogram: Hashable, Sendable {
  private static let bitsOfBucket: UInt64 = 7

  // BOUND: 7424 buckets, for 64-bit values; one of 10 s needs 3500.
  private var counts: [UInt64] = []
  private(set) var count: UInt64 = 0
  private(set) var maximum: UInt64 = 0

  mutating func record(_ nanoseconds: UInt64) {
    let bucket = Self.bucket(of: nanoseconds)
    if bucket >= counts.count { counts.append(contentsOf: repeatElement(0, count: bucket + 1 - counts.count)) }
    counts[bucket] += 1
    count += 1
    maximum = max(maximum, nanoseconds)
  }

  mutating func add(_ other: Histogram) {
    if other.counts.count > counts.count {
      counts.append(contentsOf: repeatElement(0, count: other.counts.count - counts.count))
    }
    for (bucket, number) in other.counts.enumerated() { counts[bucket] += number }
    count += other.count
    maximum = max(maximum, other.maximum)
  }

  /// The value that `fraction` (0 to 1) of the recorded ones do not exceed: the middle of its bucket, at most the
  /// maximum. 0 when nothing was recorded.
  func percentile(_ fraction: Double) -> UInt64 {
    guard count > 0 else { return 0 }
    let rank = max(1, UInt64((fraction * Double(count)).rounded(.up)))
    var seen: UInt64 = 0
    for (bucket, number) in counts.enumerated() {
      seen += number
      if seen >= rank { return min(Self.middle(of: bucket), maximum) }
    }
    return maximum
  }

  private static func bucket(of value: UInt64) -> Int {
    let exponent = UInt64(63 - (value | 1).leadingZeroBitCount)
    guard exponent > bitsOfBucket else { return Int(value) }
    let shift = exponent - bitsOfBucket
    return Int(shift << bitsOfBucket + value >> shift)
  }

  private static func middle(of bucket: Int) -> UInt64 {
    let bucket = UInt64(bucket)
    guard bucket >= 2 << bitsOfBucket else { return bucket }
    let shift = bucket >> bitsOfBucket - 1
    let low = (bucket - shift << bitsOfBucket) << shift
    return low + (1 << shift) / 2
  }
}
