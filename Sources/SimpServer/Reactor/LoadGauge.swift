internal import SimpCore

/// Whether a loop keeps up, by how late a timer of it comes: everything that arrives waits as long.
struct LoadGauge {
  /// How often the loop is looked at.
  static let interval = Interval.milliseconds(100)
  /// A loop that was late is taken for overloaded this long: refusing must show an effect before it ends.
  static let memory = Interval.seconds(1)

  private let limit: Interval
  /// When the timer should come next.
  private(set) var due = Instant.never
  private var lastLate: Instant?

  init(limit: Interval) { self.limit = limit }

  /// The timer came.
  ///
  /// - Returns: when it is to come next.
  mutating func tick(now: Instant) -> Instant {
    if isLate(now: now) { lastLate = now }
    due = now + Self.interval
    return due
  }

  /// Also between ticks: a turn that takes too long is seen in the middle of it.
  func isOverloaded(now: Instant) -> Bool {
    if isLate(now: now) { return true }
    guard let lastLate else { return false }
    return now < lastLate + Self.memory
  }

  private func isLate(now: Instant) -> Bool { due != .never && now > due + limit }
}
