import Testing

@testable import SimpCore

/// The arithmetic of RFC 9002, section 5.3, worked by hand.
@Suite struct RTTEstimatorTests {
  @Test func theFirstSampleIsTakenWhole() {
    var rtt = RTTEstimator()
    #expect(rtt.smoothed == .milliseconds(333) && rtt.variation == .microseconds(166_500))
    rtt.update(sample: .milliseconds(100), receiptDelay: .milliseconds(30))
    #expect(rtt.smoothed == .milliseconds(100) && rtt.minimum == .milliseconds(100))
    #expect(rtt.variation == .milliseconds(50))
  }

  @Test func laterSamplesMoveItTheVariationFirst() {
    var rtt = RTTEstimator()
    rtt.update(sample: .milliseconds(100), receiptDelay: .zero)
    rtt.update(sample: .milliseconds(200), receiptDelay: .zero)
    #expect(rtt.variation == .microseconds(62_500))  // 3/4 * 50 + 1/4 * |100 - 200|
    #expect(rtt.smoothed == .microseconds(112_500))  // 7/8 * 100 + 1/8 * 200
  }

  @Test func theDelayIsTakenOffDownToTheMinimum() {
    var rtt = RTTEstimator()
    rtt.update(sample: .milliseconds(100), receiptDelay: .zero)
    rtt.update(sample: .milliseconds(140), receiptDelay: .milliseconds(40))
    #expect(rtt.smoothed == .milliseconds(100) && rtt.latest == .milliseconds(140))
    var other = RTTEstimator()
    other.update(sample: .milliseconds(100), receiptDelay: .zero)
    other.update(sample: .milliseconds(139), receiptDelay: .milliseconds(40))
    #expect(other.smoothed == Interval(nanoseconds: (7 * 100_000_000 + 139_000_000) / 8))
  }

  @Test func theMinimumNeverRises() {
    var rtt = RTTEstimator()
    for sample: Int64 in [30, 10, 50, 20] { rtt.update(sample: .milliseconds(sample), receiptDelay: .zero) }
    #expect(rtt.minimum == .milliseconds(10))
  }

  @Test func timeouts() {
    var rtt = RTTEstimator()
    #expect(rtt.probeTimeout(receiptDelay: .milliseconds(100)) == .milliseconds(1099))
    rtt.update(sample: .milliseconds(80), receiptDelay: .zero)
    #expect(rtt.probeTimeout(receiptDelay: .zero) == .milliseconds(240))  // 80 + 4 * 40
    #expect(rtt.lossDelay == .milliseconds(90))
    rtt.update(sample: .milliseconds(160), receiptDelay: .zero)
    #expect(rtt.lossDelay == .milliseconds(180))  // of the larger of smoothed and latest
    var fast = RTTEstimator()
    for _ in 0..<100 { fast.update(sample: .microseconds(20), receiptDelay: .zero) }
    #expect(fast.lossDelay == .milliseconds(1))
    #expect(fast.probeTimeout(receiptDelay: .zero) >= .milliseconds(1))
  }
}
