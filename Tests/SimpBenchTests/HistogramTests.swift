import Testing

@testable import SimpBench

struct HistogramTests {
  @Test func smallValuesAreExact() {
    for value: UInt64 in 0...255 {
      var histogram = Histogram()
      histogram.record(value)
      #expect(histogram.percentile(0.5) == value)
    }
  }

  @Test func everyValueIsOffByLessThanOneInTwoHundred() {
    var value: UInt64 = 1
    while value < 1 << 62 {
      for near in [value - 1, value, value + 1, value + value / 3] {
        var histogram = Histogram()
        histogram.record(near)
        // A larger one, so that the maximum does not correct the percentile.
        histogram.record(near * 2 + 2)
        let read = histogram.percentile(0.5)
        let error = Double(max(read, near) - min(read, near))
        #expect(error <= Double(near) * 0.005, "\(near) reads \(read)")
      }
      value *= 2
    }
  }

  @Test func percentilesOfAKnownRow() {
    var histogram = Histogram()
    for value: UInt64 in 1...100_000 { histogram.record(value * 1000) }
    for (fraction, expected) in [(0.5, 50e6), (0.9, 90e6), (0.99, 99e6), (0.999, 99.9e6)] {
      let read = Double(histogram.percentile(fraction))
      #expect(abs(read - expected) < expected * 0.005, "p\(fraction * 100) is \(read)")
    }
    #expect(histogram.maximum == 100_000_000)
    #expect(histogram.percentile(1) <= histogram.maximum)
    #expect(histogram.count == 100_000)
  }

  @Test func addingIsRecordingBoth() {
    var left = Histogram()
    var right = Histogram()
    var both = Histogram()
    for value: UInt64 in 0..<1000 {
      left.record(value * 7)
      right.record(value * 12_345)
      both.record(value * 7)
      both.record(value * 12_345)
    }
    left.add(right)
    #expect(left == both)
    var empty = Histogram()
    #expect(empty.percentile(0.99) == 0)
    empty.add(both)
    #expect(empty == both)
  }

  @Test func takesTheLargestValueThereIs() {
    var histogram = Histogram()
    histogram.record(.max)
    #expect(histogram.maximum == .max)
    #expect(Double(histogram.percentile(0.5)) > 1.8e19)
  }
}
