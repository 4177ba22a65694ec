internal import SimpSupport

/// How loads are written on the command line.
extension Settings {
  /// A whole number, `50k` or `1.5M` too.
  func count(_ name: String, in range: ClosedRange<Int>) throws(UsageError) -> Int? {
    guard let text = string(name) else { return nil }
    guard let value = Self.number(text), let count = Int(exactly: value), range.contains(count) else {
      throw UsageError("--\(name): \(quoted(text)) is no whole number from \(range.lowerBound) to \(range.upperBound)")
    }
    return count
  }

  /// Messages a second.
  func rate(_ name: String) throws(UsageError) -> Double? {
    guard let text = string(name) else { return nil }
    guard let rate = Self.number(text), rate >= 0.01, rate <= 10_000_000 else {
      throw UsageError("--\(name): \(quoted(text)) is no number of messages a second, 0.01 to 10M")
    }
    return rate
  }

  /// A number alone is what the letter of the flag suggests: `-d 10` are seconds, `--delay 20` milliseconds.
  func time(_ name: String, in range: ClosedRange<Duration>) throws(UsageError) -> Duration? {
    guard let text = string(name) else { return nil }
    let isBare = !text.isEmpty && text.allSatisfy { $0.isASCII && $0.isNumber }
    let unit = name == "delay" ? "ms" : "s"
    do throws(UsageError) {
      let time = try DurationText.parse(isBare ? text + unit : text)
      guard range.contains(time) else {
        let limits = "\(DurationText.describe(range.lowerBound)) to \(DurationText.describe(range.upperBound))"
        throw UsageError("\(text) is out of the range of \(limits)")
      }
      return time
    } catch {
      throw UsageError("--\(name): \(error)")
    }
  }

  /// `50k` is 50 000, `1.5M` 1 500 000.
  static func number(_ text: String) -> Double? {
    let factors: [Character: Double] = ["k": 1000, "K": 1000, "M": 1_000_000]
    if let last = text.last, let factor = factors[last] { return Double(text.dropLast()).map { $0 * factor } }
    return Double(text)
  }
}
