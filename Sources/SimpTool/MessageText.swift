internal import Glibc
internal import SimpConnection
internal import SimpSupport

/// How `listen` and `chat` show a message.
enum MessageText {
  /// The text alone: for files and pipes. An image is shown by its address.
  static func plain(_ message: SIMPMessage) -> String {
    message.text ?? (message.kind == .image ? message.content.imageURL : message.content.text)
  }

  /// `12:03:04 alice: hello`, safe to show on a terminal.
  static func terminal(_ message: SIMPMessage) -> String {
    let late = (message.isLate ? " (late)" : "") + (message.isRedelivered ? " (again)" : "")
    return "\(clock(message.serverTime)) \(message.from)\(late): \(printable(plain(message)))"
  }

  /// One JSON object. Message IDs are strings, for many readers of JSON count in doubles.
  static func json(_ message: SIMPMessage) -> String {
    let type: JSONValue =
      switch message.kind {
      case .text: .string("text")
      case .image: .string("image")
      case .audio: .string("audio")
      default: .string("\(message.kind.rawValue)")
      }
    var members: [JSONValue.Member] = [
      .init("id", .string("\(message.id)")), .init("from", .string(message.from)),
      .init("text", .string(message.content.text)), .init("type", type),
    ]
    if !message.content.imageURL.isEmpty { members.append(.init("image_url", .string(message.content.imageURL))) }
    members += [
      .init("time", .unsigned(message.time)), .init("server_time", .unsigned(message.serverTime)),
      .init("order", .unsigned(message.order)), .init("device", .unsigned(UInt64(message.device))),
      .init("via", .string(message.transport.rawValue)), .init("late", .bool(message.isLate)),
      .init("redelivered", .bool(message.isRedelivered)),
    ]
    return JSONValue.object(members).description
  }

  /// The local time of day.
  private static func clock(_ milliseconds: UInt64) -> String {
    var seconds = time_t(truncatingIfNeeded: milliseconds / 1000)
    var parts = unsafe tm()
    // SAFETY: fills a local structure.
    unsafe localtime_r(&seconds, &parts)
    let numbers = unsafe [parts.tm_hour, parts.tm_min, parts.tm_sec]
    return numbers.map { $0 < 10 ? "0\($0)" : "\($0)" }.joined(separator: ":")
  }
}
