import Glibc
import Synchronization

/// Writes one line an event: `2026-11-30T11:34:05.123Z info session-opened user=bob device=3`.
///
/// Any thread may call; lines never mix. A level that is off costs one atomic load: the fields are not even evaluated.
/// Callers put no message body, token or key into a field.
public final class Log: Sendable {
  public enum Level: UInt8, Sendable, Comparable, CaseIterable {
    case error, warn, info, debug

    /// The level of that name, nil for any other word.
    public init?(name: String) {
      guard let level = Self.allCases.first(where: { $0.name == name }) else { return nil }
      self = level
    }

    public var name: String { "\(self)" }
    public static func < (left: Level, right: Level) -> Bool { left.rawValue < right.rawValue }
  }

  /// What a field may hold: anything with a description.
  public typealias Fields = KeyValuePairs<String, any CustomStringConvertible>

  private let threshold: Atomic<UInt8>
  /// Held while a line is written, so that lines stay whole.
  private let sink: Guarded<@Sendable (String) -> Void>

  /// - Parameters:
  ///   - level: the least urgent one that is written.
  ///   - sink: gets each line with its newline, one at a time; standard error unless given.
  public init(level: Level = .info, sink: @escaping @Sendable (String) -> Void = Log.standardError) {
    threshold = Atomic(level.rawValue)
    self.sink = Guarded(sink)
  }

  /// A log that drops everything.
  public static var silent: Log { Log(level: .error) { _ in } }

  /// The least urgent level that is written. May change at any time.
  public var level: Level {
    get { Level(rawValue: threshold.load(ordering: .relaxed)) ?? .info }
    set { threshold.store(newValue.rawValue, ordering: .relaxed) }
  }

  public func error(_ event: StaticString, _ fields: @autoclosure () -> Fields = [:]) { write(.error, event, fields) }
  public func warn(_ event: StaticString, _ fields: @autoclosure () -> Fields = [:]) { write(.warn, event, fields) }
  public func info(_ event: StaticString, _ fields: @autoclosure () -> Fields = [:]) { write(.info, event, fields) }
  public func debug(_ event: StaticString, _ fields: @autoclosure () -> Fields = [:]) { write(.debug, event, fields) }

  /// Whether events of `level` are written, for callers whose preparations cost more than an autoclosure saves.
  public func isOn(_ level: Level) -> Bool { level.rawValue <= threshold.load(ordering: .relaxed) }

  private func write(_ level: Level, _ event: StaticString, _ fields: () -> Fields) {
    guard isOn(level) else { return }
    var line = "\(Timestamp.now()) \(level.name) \(event)"
    for (key, value) in fields() {
      line += " \(key)=\(Self.fieldText(value.description))"
    }
    line += "\n"
    sink.withLock { $0(line) }
  }

  /// Plain when it is one word of printable characters without quotes, else quoted and escaped.
  private static func fieldText(_ text: String) -> String {
    let isPlain =
      !text.isEmpty && text.utf8.count <= 200
      && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != 0x22 && $0 != 0x5C && $0 != 0x3D }
    return isPlain ? text : quoted(text)
  }

  /// Writes to file descriptor 2. A line that cannot be written is dropped: the log never stops the program.
  public static let standardError: @Sendable (String) -> Void = { line in
    var rest = Array(line.utf8)[...]
    while !rest.isEmpty {
      // SAFETY: writes out of `rest` only, which outlives the call.
      let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(2, $0.baseAddress, $0.count) }
      if count < 0 && errno == EINTR { continue }
      guard count > 0 else { return }
      rest = rest.dropFirst(count)
    }
  }
}

/// Time of day in UTC, for logs.
enum Timestamp {
  /// `2026-11-30T11:34:05.123Z`.
  static func now() -> String {
    var time = timespec()
    // SAFETY: both calls fill local structures.
    unsafe clock_gettime(CLOCK_REALTIME, &time)
    return text(seconds: time.tv_sec, milliseconds: time.tv_nsec / 1_000_000)
  }

  static func text(seconds: Int, milliseconds: Int) -> String {
    var seconds = seconds
    var parts = unsafe tm()
    unsafe gmtime_r(&seconds, &parts)
    func padded(_ value: some BinaryInteger, _ width: Int) -> String {
      let digits = "\(value)"
      return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
    let date = unsafe "\(padded(parts.tm_year + 1900, 4))-\(padded(parts.tm_mon + 1, 2))-\(padded(parts.tm_mday, 2))"
    let clock = unsafe "\(padded(parts.tm_hour, 2)):\(padded(parts.tm_min, 2)):\(padded(parts.tm_sec, 2))"
    return "\(date)T\(clock).\(padded(milliseconds, 3))Z"
  }
}
