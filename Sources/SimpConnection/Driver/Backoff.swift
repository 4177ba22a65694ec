package import SimpCore

/// How long to wait before the next attempt: full jitter, so that a thousand clients of a server that comes back do
/// not come as one.
package struct Backoff: Sendable {
  private let first: Interval
  private let last: Interval
  /// Attempts that failed since the last good session.
  package private(set) var failures = 0
  /// A session of this length is a good one.
  static let goodSession = Interval.seconds(10)

  package init(first: Interval, last: Interval) {
    self.first = max(first, .milliseconds(1))
    self.last = max(last, first)
  }

  package mutating func sessionLasted(_ interval: Interval) {
    if interval >= Self.goodSession { failures = 0 }
  }

  /// - Parameters:
  ///   - retryAfter: what the server asked for. It is waited for in full, and then a random time: a thousand clients
  ///     that were told the same time must not come as one.
  ///   - spread: up to which that goes, when the server said so; zero: up to the usual bound, or as long again.
  ///   - random: 64 random bits.
  package mutating func next(retryAfter: Interval, spread: Interval = .zero, random: UInt64) -> Interval {
    var bound = first
    for _ in 0..<min(failures, 40) where bound < last { bound = bound * 2 }
    failures += 1
    bound = spread > .zero ? spread : max(min(bound, last), retryAfter)
    let jitter = Int64(random % UInt64(bound.nanoseconds + 1))
    return retryAfter + Interval(nanoseconds: jitter)
  }
}
