/// Spreads what may leave over the round trip, at 1.25 times the congestion window in each (RFC 9002, section 7.7). An
/// initial window leaves at once when nothing flies, else two datagrams, or what 2 ms bear.
///
/// Receipts come a few times in a round trip and open a good part of the window at once. Ten datagrams in a row then met a
/// queue that another sender keeps full: beside a TCP (cubic) flow such a sender had a twentieth of what that had, with
/// two it has half (a model of a link of 10 Mbit/s, 40 ms, a queue of 50).
///
/// Within 2 ms there is nothing to spread: the timers of an event loop are not finer than 1 ms.
struct Pacer {
  static let leastRTT = Interval.milliseconds(2)
  static let maximumBurst = 256 * WireLimits.maximumDatagramBytes

  /// May fall below 0 by one datagram, or by probes, which never wait.
  private var tokens = WireLimits.initialCongestionWindow
  static let burst = 2 * WireLimits.maximumDatagramBytes
  private var last: Instant?
  /// When what waits may leave; nil while nothing waits for it.
  private(set) var next: Instant?

  /// Whether a datagram with messages may leave now; if not, `next` says when.
  ///
  /// - Parameter isIdle: nothing flies.
  mutating func mayLeave(now: Instant, window: Int, isIdle: Bool, rtt: RTTEstimator) -> Bool {
    guard rtt.latest != nil, rtt.smoothed >= Self.leastRTT else {
      next = nil
      last = nil
      return true
    }
    refill(now: now, window: window, isIdle: isIdle, rtt: rtt.smoothed)
    guard tokens <= 0 else {
      next = nil
      return true
    }
    let wait = Double(1 - tokens) * Double(rtt.smoothed.nanoseconds) / (1.25 * Double(window))
    next = now + max(Interval(nanoseconds: Int64(wait)), WireTimes.granularity)
    return false
  }

  /// A datagram that counts as in flight left.
  mutating func left(bytes: Int) {
    if last != nil { tokens -= bytes }
  }

  /// Nothing waits any more.
  mutating func stop() { next = nil }

  private mutating func refill(now: Instant, window: Int, isIdle: Bool, rtt: Interval) {
    // What a timer of 2 ms lets pass: late timers must not slow a fast path down.
    let fast = 1.25 * Double(window) * Double(Self.leastRTT.nanoseconds) / Double(rtt.nanoseconds)
    let least = isIdle ? WireLimits.initialCongestionWindow : Self.burst
    let capacity = min(max(least, Int(min(fast, Double(Self.maximumBurst)))), window)
    guard let since = last else {
      tokens = capacity
      last = now
      return
    }
    let fresh = 1.25 * Double(window) * Double(max(0, (now - since).nanoseconds)) / Double(rtt.nanoseconds)
    // Less than a byte: it is kept for the next time.
    guard fresh >= 1 else { return }
    tokens = min(capacity, tokens + Int(min(fresh, Double(2 * WireLimits.maximumCongestionWindow))))
    last = now
  }
}
