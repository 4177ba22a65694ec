/// How many datagrams with a bad tag a session tries from addresses that are not proven: beyond it they are dropped
/// unread, so that valid connection ids with bad tags cannot keep a core busy.
///
/// The proven address is never limited, or whoever writes other addresses on his datagrams could shut an honest client
/// out. What such a flood does shut out is a client that proves another address meanwhile: it has TCP until the flood
/// ends.
struct ForgeryAllowance {
  private var tokens = Self.burst
  private var last: Instant?

  /// Failures at once, and a second. Opening 1200 bytes in vain costs about 1 us: this is a thousandth of a core.
  static let burst: Int64 = 1000
  static let perSecond: Int64 = 1000

  /// Whether one more may be tried.
  mutating func mayTry(now: Instant) -> Bool {
    let since = last ?? now
    let interval = Interval.seconds(1) / Self.perSecond
    let fresh = max(0, (now - since).nanoseconds) / interval.nanoseconds
    if last == nil || fresh > 0 {
      tokens = min(Self.burst, tokens + min(fresh, Self.burst))
      last = since + interval * min(fresh, .max / interval.nanoseconds)
    }
    return tokens > 0
  }

  /// One was tried in vain.
  mutating func failed() { tokens -= 1 }
}
