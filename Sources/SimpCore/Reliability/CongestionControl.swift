/// How much may fly at a time: NewReno as RFC 9002, appendix B, in bytes of whole datagrams.
///
/// What flies is counted by `SentDatagrams`, probes included: they may leave beyond the window, and fill it.
struct CongestionControl {
  /// Four datagrams, as Chromium has it, and not the two that RFC 9002 recommends: chat loses datagrams to bad radio more
  /// than to full queues. With two, at 20 % loss, messages waited for room until probes alone were left, and a third of
  /// them went by TCP; with four a tenth does, as without any window.
  static let minimumWindow = 4 * WireLimits.maximumDatagramBytes

  private(set) var window = WireLimits.initialCongestionWindow
  /// The largest it has been.
  private(set) var largest = WireLimits.initialCongestionWindow
  private(set) var threshold = Int.max
  private(set) var congestionEvents: UInt64 = 0
  /// Losses of what left before this belong to an event that was answered already.
  private var recoveryStart: Instant?
  /// Datagrams below this number flew while the window was full, or held back by pacing alone.
  private var limitedBelow: UInt64 = 0
  /// Slow start looks at the round trip once in each: datagrams below this number belong to the present one.
  private var roundEnd: UInt64 = 0
  /// The shortest round trip in the present round, and in the one before.
  private var shortest: (present: Interval?, former: Interval?)
  /// Receipted since the window last grew by a datagram; congestion avoidance only.
  private var receiptedBytes = 0

  var isInSlowStart: Bool { window < threshold }

  /// Something waits and may not leave.
  ///
  /// - Parameter nextNumber: that of the datagram it would have been in.
  mutating func limited(at nextNumber: UInt64) { limitedBelow = nextNumber }

  /// A datagram that flew was receipted. A window that its owner did not use says nothing about the path, and does not
  /// grow (RFC 9002, section 7.8).
  mutating func receipted(_ number: UInt64, bytes: Int, sent: Instant) {
    guard number < limitedBelow else { return }
    if let recoveryStart, sent <= recoveryStart { return }
    if isInSlowStart {
      window += bytes
    } else {
      receiptedBytes += bytes
      if receiptedBytes >= window {
        receiptedBytes -= window
        window += WireLimits.maximumDatagramBytes
      }
    }
    window = min(window, WireLimits.maximumCongestionWindow)
    largest = max(largest, window)
  }

  /// A receipt told the time of the round trip. When it grows from round to round of slow start, a queue does: the window
  /// is large enough, and doubling it again would only fill that queue to its end (HyStart, RFC 9406; with the larger
  /// threshold, for there are one or two samples in a round and not eight).
  mutating func sampled(_ rtt: Interval, of number: UInt64, nextNumber: UInt64) {
    guard isInSlowStart, number < limitedBelow else { return }
    if number >= roundEnd {
      shortest = (nil, shortest.present)
      roundEnd = nextNumber
    }
    let present = min(shortest.present ?? rtt, rtt)
    shortest.present = present
    guard let former = shortest.former, present >= former + max(former / 8, Self.leastGrowth) else { return }
    threshold = window
  }

  /// Of the round trip, to be taken for a queue.
  static let leastGrowth = Interval.milliseconds(16)

  /// Datagrams are lost.
  ///
  /// - Parameter sent: when the last of them left.
  mutating func lost(sent: Instant, now: Instant) {
    if let recoveryStart, sent <= recoveryStart { return }
    recoveryStart = now
    congestionEvents += 1
    threshold = max(window / 2, Self.minimumWindow)
    window = threshold
    receiptedBytes = 0
  }

  /// Datagrams take a way that nobody knows. What flew under the former window still counts, so the largest stays.
  mutating func startAnew() {
    let largest = largest
    self = CongestionControl()
    self.largest = largest
  }

  /// Datagrams take a way again that was left for one that nobody proved: the window is the one it had.
  mutating func goBack(to former: CongestionControl) {
    let largest = max(largest, former.largest)
    self = former
    self.largest = largest
  }

  /// Nothing arrived for so long that what is known of the path is worth nothing (RFC 9002, section 7.6).
  mutating func collapse() {
    window = Self.minimumWindow
    recoveryStart = nil
    receiptedBytes = 0
  }
}
