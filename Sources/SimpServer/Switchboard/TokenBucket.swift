internal import SimpCore

/// So many a second, and a burst of them after rest.
struct TokenBucket {
  let perSecond: Double
  let burst: Double
  private var tokens: Double
  private var last = Instant(nanoseconds: 0)

  /// - Parameter burst: the most that is taken at once.
  init(perSecond: Int, burst: Int) {
    self.perSecond = Double(perSecond)
    self.burst = Double(burst)
    tokens = Double(burst)
  }

  /// Takes `count`, or nothing.
  ///
  /// - Returns: nil when it was taken, else how long to wait until it can be.
  mutating func take(_ count: Int = 1, now: Instant) -> Interval? {
    refill(now: now)
    let wanted = min(Double(count), burst)
    guard tokens < wanted else {
      tokens -= wanted
      return nil
    }
    return Interval(nanoseconds: Int64((wanted - tokens) / perSecond * 1e9) + 1)
  }

  /// Takes `count`, which was used already, and may leave less than nothing.
  mutating func charge(_ count: Int, now: Instant) {
    refill(now: now)
    tokens -= Double(count)
  }

  mutating func isEmpty(now: Instant) -> Bool {
    refill(now: now)
    return tokens <= 0
  }

  /// Puts back what was taken and not used.
  mutating func giveBack(_ count: Int) { tokens = min(burst, tokens + min(Double(count), burst)) }

  /// As if never used: such a bucket need not be kept.
  mutating func isFull(now: Instant) -> Bool {
    refill(now: now)
    return tokens >= burst
  }

  private mutating func refill(now: Instant) {
    guard now > last else { return }
    tokens = min(burst, tokens + Double((now - last).nanoseconds) / 1e9 * perSecond)
    last = now
  }
}
