internal import SimpCore

/// Keeps a flood out of the log: so many lines a second of a kind that strangers can cause.
struct LogBudget {
  private var bucket: TokenBucket
  private var dropped = 0

  init(linesPerSecond: Int = 5) { bucket = TokenBucket(perSecond: linesPerSecond, burst: 4 * linesPerSecond) }

  /// - Returns: nil when the line is to be dropped, else how many were before it.
  mutating func line(now: Instant) -> Int? {
    guard bucket.take(now: now) == nil else {
      dropped += 1
      return nil
    }
    defer { dropped = 0 }
    return dropped
  }
}
