internal import SimpSupport

extension Histogram {
  /// Percentiles in milliseconds.
  var json: JSONValue {
    func value(_ fraction: Double) -> JSONValue { .number(Double(percentile(fraction)) / 1e6, digits: 4) }
    return .object([
      "p50": value(0.5), "p90": value(0.9), "p99": value(0.99), "p999": value(0.999),
      "max": .number(Double(maximum) / 1e6, digits: 4),
    ])
  }

  /// The same for a person: `p50 1.20 ms, p90 …`.
  var words: String {
    func value(_ nanoseconds: UInt64) -> String { DurationText.describe(.nanoseconds(Int64(clamping: nanoseconds))) }
    let fractions = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)]
    return fractions.map { "\($0.0) \(value(percentile($0.1)))" }.joined(separator: ", ") + ", max \(value(maximum))"
  }
}

extension Duration {
  var inSeconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}
