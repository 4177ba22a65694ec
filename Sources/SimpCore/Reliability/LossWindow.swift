/// Which of the last datagrams of a direction were lost. Losses of long ago say nothing of a path that is good now, so
/// a window decides and not the totals.
struct LossWindow {
  /// Datagrams looked at, and how many must have been settled before a share of them means anything.
  static let width = 128
  static let least = 32

  // Bit 0 is the latest.
  private var bits: UInt128 = 0
  private(set) var settled: UInt64 = 0
  private(set) var quality = PathQuality()

  /// How many of the window are known.
  var count: Int { Int(min(settled, UInt64(Self.width))) }
  var lost: Int { bits.nonzeroBitCount }
  /// 0 to 1; 0 while nothing is settled.
  var share: Double { count == 0 ? 0 : Double(lost) / Double(count) }

  /// A datagram arrived or counts as lost.
  ///
  /// - Returns: its place, for `forgive`.
  mutating func settle(isLost: Bool) -> UInt64 {
    bits = bits << 1 | (isLost ? 1 : 0)
    settled += 1
    judge()
    return settled
  }

  /// What counted as lost was only late: it is not held against the path.
  mutating func forgive(_ place: UInt64) {
    guard place > 0, place <= settled, settled - place < UInt64(Self.width) else { return }
    bits &= ~(UInt128(1) << UInt128(settled - place))
    judge()
  }

  private mutating func judge() {
    if count >= Self.least { quality.judge(lost: lost, of: count) }
  }
}

/// Whether a direction is degraded, with a gap between the two thresholds, so that a path at one of them does not go to
/// and fro.
struct PathQuality {
  private(set) var isDegraded = false

  mutating func judge(lost: Int, of count: Int) {
    let share = lost * 100
    if share > WireTimes.degradedPercent * count { isDegraded = true }
    if share <= WireTimes.recoveredPercent * count { isDegraded = false }
  }
}
