import Glibc

/// The values of a program's flags, each from the first place that gives it: command line, environment (`SIMP_…`),
/// configuration file, default. The last three only for flags that are settings.
public struct Settings: Sendable {
  private struct Value: Sendable {
    let text: String
    /// Where it was given, as a message begins: `--port`, `SIMP_PORT`, `simp.conf:3: port`.
    let origin: String
  }

  private var values: [String: Value] = [:]
  private let names: Set<String>

  /// - Parameters:
  ///   - flags: those of the program. Asking for any other name later is a programming mistake and traps.
  ///   - environment: gives the value of a variable; the process environment unless a test says otherwise.
  /// - Throws: for a key in the file that is no setting, with file, line and the nearest that is one.
  public init(
    flags: [Flag], arguments: Arguments, file: ConfigurationFile? = nil,
    environment: (String) -> String? = Settings.processEnvironment
  ) throws(UsageError) {
    names = Set(flags.map(\.name))
    for flag in flags {
      if let text = flag.defaultValue { values[flag.name] = Value(text: text, origin: "default of \(flag.name)") }
    }
    let settings = Set(flags.filter(\.isSetting).map(\.name))
    for entry in file?.entries ?? [] {
      let place = "\(file?.name ?? ""):\(entry.line): "
      guard settings.contains(entry.key) else {
        let near = nearest(to: entry.key, among: settings.sorted()).map { "; did you mean \($0)?" } ?? ""
        throw UsageError("\(place)unknown setting \(quoted(entry.key))\(near)")
      }
      values[entry.key] = Value(text: entry.value, origin: place + entry.key)
    }
    for flag in flags where flag.isSetting {
      // An empty variable is one that was unset in the way container files can.
      guard let text = environment(flag.environmentName), !text.isEmpty else { continue }
      values[flag.name] = Value(text: text, origin: flag.environmentName)
    }
    for flag in flags {
      if let text = arguments.value(flag.name) { values[flag.name] = Value(text: text, origin: "--\(flag.name)") }
    }
  }

  /// A variable of the process environment.
  public static func processEnvironment(_ name: String) -> String? {
    // SAFETY: nothing in the project changes the environment, so the C string stays while it is copied.
    guard let text = unsafe getenv(name) else { return nil }
    return unsafe String(cString: text)
  }

  /// The text, nil when nothing gives one.
  public func string(_ name: String) -> String? { value(name)?.text }

  /// Whether a switch is on: given as a flag, or `yes`, `true`, `on` or `1` elsewhere (`no`, `false`, `off`, `0`: off).
  public func isOn(_ name: String) throws(UsageError) -> Bool {
    guard let value = value(name) else { return false }
    switch value.text.lowercased() {
    case "yes", "true", "on", "1": return true
    case "no", "false", "off", "0": return false
    default: throw UsageError("\(value.origin): \(quoted(value.text)) is neither yes nor no")
    }
  }

  /// A whole number within `range`, nil when nothing gives one.
  public func integer(_ name: String, in range: ClosedRange<Int> = 0...Int.max) throws(UsageError) -> Int? {
    guard let value = value(name) else { return nil }
    guard let number = Int(value.text), range.contains(number) else {
      let upper = range.upperBound == .max ? "" : " to \(range.upperBound)"
      throw UsageError("\(value.origin): \(quoted(value.text)) is no whole number from \(range.lowerBound)\(upper)")
    }
    return number
  }

  /// A number with or without a fraction within `range`, nil when nothing gives one. `5%` is 0.05.
  public func number(_ name: String, in range: ClosedRange<Double>) throws(UsageError) -> Double? {
    guard let value = value(name) else { return nil }
    let isPercentage = value.text.hasSuffix("%")
    let digits = isPercentage ? String(value.text.dropLast()) : value.text
    guard let read = Double(digits), case let number = isPercentage ? read / 100 : read, range.contains(number) else {
      throw UsageError(
        "\(value.origin): \(quoted(value.text)) is no number from \(range.lowerBound) to \(range.upperBound)")
    }
    return number
  }

  /// A length of time within `range`, nil when nothing gives one.
  public func duration(
    _ name: String, in range: ClosedRange<Duration> = .zero ... .seconds(Int64(1) << 32)
  ) throws(UsageError) -> Duration? {
    guard let value = value(name) else { return nil }
    do throws(UsageError) {
      let duration = try DurationText.parse(value.text)
      guard range.contains(duration) else {
        let limits = "\(DurationText.describe(range.lowerBound)) to \(DurationText.describe(range.upperBound))"
        throw UsageError("\(value.text) is out of the range of \(limits)")
      }
      return duration
    } catch {
      throw UsageError("\(value.origin): \(error)")
    }
  }

  /// One of `choices`, nil when nothing gives one.
  public func choice(_ name: String, of choices: [String]) throws(UsageError) -> String? {
    guard let value = value(name) else { return nil }
    guard choices.contains(value.text) else {
      throw UsageError("\(value.origin): \(quoted(value.text)) is none of \(choices.joined(separator: ", "))")
    }
    return value.text
  }

  /// Where the value was given, for messages about it: `--port`, `SIMP_PORT`, `simp.conf:3: port`.
  public func origin(_ name: String) -> String? { value(name)?.origin }

  private func value(_ name: String) -> Value? {
    precondition(names.contains(name), "no flag is named \(name)")
    return values[name]
  }
}
