/// A point on the monotonic clock, in nanoseconds. The core never reads a clock: every input carries one.
public struct Instant: Hashable, Comparable, Sendable {
  /// Nanoseconds since an arbitrary start, the same for every instant of a process.
  public var nanoseconds: UInt64

  public init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

  /// Later than every instant a clock gives.
  public static let never = Instant(nanoseconds: .max)

  public static func < (left: Instant, right: Instant) -> Bool { left.nanoseconds < right.nanoseconds }

  /// Saturates at both ends, so that `never` stays never.
  public static func + (instant: Instant, interval: Interval) -> Instant {
    let moved =
      interval.nanoseconds >= 0
      ? instant.nanoseconds.addingReportingOverflow(UInt64(interval.nanoseconds))
      : instant.nanoseconds.subtractingReportingOverflow(interval.nanoseconds.magnitude)
    if moved.overflow { return Instant(nanoseconds: interval.nanoseconds >= 0 ? .max : 0) }
    return Instant(nanoseconds: moved.partialValue)
  }

  public static func - (instant: Instant, interval: Interval) -> Instant {
    instant + Interval(nanoseconds: -interval.nanoseconds)
  }

  /// The time from `earlier` to `later`, negative when they are the other way round.
  public static func - (later: Instant, earlier: Instant) -> Interval {
    Interval(nanoseconds: Int64(truncatingIfNeeded: later.nanoseconds &- earlier.nanoseconds))
  }
}

/// A length of time in whole nanoseconds: `Duration` counts in 128 bits, too dear on the way of each datagram.
public struct Interval: Hashable, Comparable, Sendable {
  public var nanoseconds: Int64

  public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

  public static let zero = Interval(nanoseconds: 0)
  public static func microseconds(_ count: Int64) -> Interval { Interval(nanoseconds: count * 1000) }
  public static func milliseconds(_ count: Int64) -> Interval { Interval(nanoseconds: count * 1_000_000) }
  public static func seconds(_ count: Int64) -> Interval { Interval(nanoseconds: count * 1_000_000_000) }

  /// In milliseconds with fraction, for people and reports.
  public var milliseconds: Double { Double(nanoseconds) / 1_000_000 }

  public static func < (left: Interval, right: Interval) -> Bool { left.nanoseconds < right.nanoseconds }
  public static func + (left: Interval, right: Interval) -> Interval {
    Interval(nanoseconds: left.nanoseconds + right.nanoseconds)
  }
  public static func - (left: Interval, right: Interval) -> Interval {
    Interval(nanoseconds: left.nanoseconds - right.nanoseconds)
  }
  public static func * (interval: Interval, factor: Int64) -> Interval {
    Interval(nanoseconds: interval.nanoseconds * factor)
  }
  public static func / (interval: Interval, divisor: Int64) -> Interval {
    Interval(nanoseconds: interval.nanoseconds / divisor)
  }
}
