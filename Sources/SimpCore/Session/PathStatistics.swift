/// How the datagrams of one session fare, at one moment. Counts are since the session began.
public struct PathStatistics: Hashable, Sendable {
  /// Towards the peer, by what it receipts.
  public var sending = PathState.off
  /// From the peer, by what is missing among the packet numbers that came.
  public var receiving = PathState.off

  /// Nil until the first sample; RFC 9002, section 5.
  public var latestRTT: Interval?
  public var smoothedRTT = WireTimes.initialRTT
  public var rttVariation = WireTimes.initialRTT / 2
  public var minimumRTT = Interval.zero

  /// Bytes of datagrams that may fly at a time, and that do.
  public var congestionWindow = 0
  public var bytesInFlight = 0

  /// The share of the last 128 datagrams that was lost, 0 to 1. What turned out to be late only is not in it.
  public var sendingLoss = 0.0
  /// The same for those of the peer. The numbers that it leaves out on purpose look like losses, at most one of them.
  public var receivingLoss = 0.0

  public var datagramsSent: UInt64 = 0
  public var datagramsReceived: UInt64 = 0
  /// Counted as lost, and of these the ones whose receipt came after all.
  public var datagramsLost: UInt64 = 0
  public var datagramsSpurious: UInt64 = 0
  /// Messages sent again because they, or their receipts, were taken for lost.
  public var retransmissions: UInt64 = 0
  /// Messages sent twice before anything was lost, so that one loss costs no round trip.
  public var redundantCopies: UInt64 = 0
  /// Messages that went by TCP because UDP took too long.
  public var escalations: UInt64 = 0
  public var probeTimeouts: UInt64 = 0
  /// How often the peer's address changed.
  public var migrations: UInt64 = 0

  public init() {}
}

extension Channel {
  public var pathStatistics: PathStatistics {
    var statistics = PathStatistics()
    statistics.sending = path == .up && sent.losses.quality.isDegraded ? .degraded : path
    statistics.receiving = path == .up && receivingQuality.isDegraded ? .degraded : path
    statistics.latestRTT = sent.rtt.latest
    statistics.smoothedRTT = sent.rtt.smoothed
    statistics.rttVariation = sent.rtt.variation
    statistics.minimumRTT = sent.rtt.minimum
    statistics.congestionWindow = sent.congestion.window
    statistics.bytesInFlight = sent.bytesInFlight
    statistics.sendingLoss = sent.losses.share
    let (missing, count) = replay.missing(of: LossWindow.width)
    statistics.receivingLoss = count == 0 ? 0 : Double(missing) / Double(count)
    statistics.datagramsSent = counters.datagramsSent
    statistics.datagramsReceived = counters.datagramsReceived
    statistics.datagramsLost = sent.lostCount
    statistics.datagramsSpurious = sent.spuriousCount
    statistics.retransmissions = window.retransmissions
    statistics.redundantCopies = redundancy.copies
    statistics.escalations = counters.messagesEscalated
    statistics.probeTimeouts = counters.probeTimeouts
    statistics.migrations = counters.migrations
    return statistics
  }

  /// To be called for each datagram that came.
  func judgeReceiving() {
    guard counters.datagramsReceived % UInt64(LossWindow.least) == 0 else { return }
    let (missing, count) = replay.missing(of: LossWindow.width)
    if count >= LossWindow.least { receivingQuality.judge(lost: missing, of: count) }
  }
}
