/// Round-trip time of one path (RFC 9002, section 5, in the order of appendix A.7: the variation first).
public struct RTTEstimator: Sendable {
  /// Nil until the first sample.
  public private(set) var latest: Interval?
  public private(set) var smoothed = WireTimes.initialRTT
  public private(set) var variation = WireTimes.initialRTT / 2
  public private(set) var minimum = Interval.zero

  public init() {}

  /// Takes one sample: the time from a datagram to the receipt that first names it as its largest.
  ///
  /// - Parameter receiptDelay: what the receiver says it waited; taken off unless the sample would fall under the
  ///   minimum.
  public mutating func update(sample: Interval, receiptDelay: Interval) {
    guard latest != nil else {
      latest = sample
      minimum = sample
      smoothed = sample
      variation = sample / 2
      return
    }
    latest = sample
    minimum = min(minimum, sample)
    let adjusted = sample >= minimum + receiptDelay ? sample - receiptDelay : sample
    let difference = Interval(nanoseconds: abs((smoothed - adjusted).nanoseconds))
    variation = (variation * 3 + difference) / 4
    smoothed = (smoothed * 7 + adjusted) / 8
  }

  /// How long a datagram may be passed by later ones before it counts as lost.
  public var lossDelay: Interval { max(max(smoothed, latest ?? smoothed) * 9 / 8, WireTimes.granularity) }

  /// A time that is meant for a lost datagram, for a path where a queue alone may take as long: what waits in it arrives,
  /// and sent again it would only make the queue longer. Half as much again as the round trip, up to `limit`: one late
  /// sample must not put everything off.
  func patience(_ time: Interval, trips: Int64 = 1, limit: Interval = .seconds(6)) -> Interval {
    latest == nil ? time : max(time, min(smoothed * trips * 3 / 2, limit))
  }

  /// When all that was sent for longer than this is lost, the path is taken for congested throughout (RFC 9002, section
  /// 7.6.1).
  public var persistentCongestion: Interval { probeTimeout(receiptDelay: WireTimes.receiptDelay) * 3 }

  /// The probe timeout without backoff, for a peer that answers after `receiptDelay` at most.
  public func probeTimeout(receiptDelay: Interval) -> Interval {
    smoothed + max(variation * 4, WireTimes.granularity) + receiptDelay
  }
}
