/// Lengths of time as people write them: `250ms`, `90s`, `1h30m`, `7d`.
public enum DurationText {
  private static let units: [(name: String, nanoseconds: Int64)] = [
    ("ns", 1), ("us", 1000), ("ms", 1_000_000), ("s", 1_000_000_000), ("m", 60_000_000_000),
    ("h", 3_600_000_000_000), ("d", 86_400_000_000_000),
  ]

  /// Reads whole numbers with units, added up: `1m30s`. The longest is about 292 years.
  ///
  /// - Throws: a sentence with examples for anything else, a number without a unit included (`0` is the exception).
  public static func parse(_ text: String) throws(UsageError) -> Duration {
    if text == "0" { return .zero }
    var total: Int64 = 0
    var rest = text[...]
    repeat {
      let digits = rest.prefix { $0.isASCII && $0.isNumber }
      rest = rest.dropFirst(digits.count)
      let unit = rest.prefix { $0.isLetter }
      rest = rest.dropFirst(unit.count)
      guard let count = Int64(digits), let factor = units.first(where: { $0.name == unit })?.nanoseconds else {
        throw UsageError("\(quoted(text)) is no length of time; write it like 250ms, 90s, 5m, 1h or 1h30m")
      }
      let (product, tooLong) = count.multipliedReportingOverflow(by: factor)
      let (sum, overflow) = total.addingReportingOverflow(product)
      guard !tooLong, !overflow else { throw UsageError("\(quoted(text)) is too long a time") }
      total = sum
    } while !rest.isEmpty
    return .nanoseconds(total)
  }

  /// For reading: the number has 3 significant digits below a minute (`3.10 ms`), two units above (`2 h 5 min`).
  public static func describe(_ duration: Duration) -> String {
    let parts = duration.components
    let seconds = Double(parts.seconds) + Double(parts.attoseconds) / 1e18
    if seconds < 0 { return "-" + describe(.zero - duration) }
    switch seconds {
    case 0: return "0 s"
    case ..<0.000_001: return "\(parts.attoseconds / 1_000_000_000) ns"
    case ..<0.000_999_5: return significant(seconds * 1e6) + " us"
    case ..<0.999_5: return significant(seconds * 1e3) + " ms"
    case ..<59.95: return significant(seconds) + " s"
    default: break
    }
    let whole = Int64(seconds.rounded())
    switch whole {
    case ..<3600: return "\(whole / 60) min \(whole % 60) s"
    case ..<86_400: return "\(whole / 3600) h \(whole % 3600 / 60) min"
    default: return "\(whole / 86_400) d \(whole % 86_400 / 3600) h"
    }
  }

  private static func significant(_ value: Double) -> String {
    fixed(value, digits: value < 9.995 ? 2 : value < 99.95 ? 1 : 0)
  }
}

/// `value` with `digits` places after the point (0 to 9), rounded half away from zero: `fixed(3.14159, digits: 2)` is
/// `3.14`. Values that are no numbers come out as `nan` and `inf`.
public func fixed(_ value: Double, digits: Int) -> String {
  precondition((0...9).contains(digits), "digits after the point: 0 to 9")
  guard value.isFinite else { return "\(value)" }
  var scale: Int64 = 1
  for _ in 0..<digits { scale *= 10 }
  let scaled = (value * Double(scale)).rounded()
  guard scaled.magnitude < 9e18 else { return "\(value)" }
  let number = Int64(scaled)
  let whole = "\(number.magnitude / UInt64(scale))"
  let sign = number < 0 ? "-" : ""
  guard digits > 0 else { return sign + whole }
  let fraction = "\(number.magnitude % UInt64(scale))"
  return sign + whole + "." + String(repeating: "0", count: digits - fraction.count) + fraction
}
