/// Where a Redis is.
public enum RedisAddress: Hashable, Sendable {
  /// By TCP, in clear text. `user` nil with a password means Redis's default user.
  case tcp(host: String, port: UInt16, user: String? = nil, password: String? = nil)
  /// A socket in the file system.
  case unix(path: String)

  /// The longest path of a Unix socket. Bytes. The kernel takes 107, but hiredis 0.14 leaves the byte behind those as it
  /// was in memory, and so connects to another name.
  public static let maximumPathBytes = 106

  /// Reads `HOST:PORT`, `HOST` (port 6379), `[::1]:6379`, `unix:PATH`, and before a host `USER:PASSWORD@` or
  /// `:PASSWORD@`. A leading `redis://` may stand there.
  ///
  /// - Throws: `invalidName` with a sentence that says what is wrong.
  public init(parsing text: String) throws(RedisError) {
    if text.hasPrefix("unix:") {
      let path = String(text.dropFirst(5))
      guard !path.isEmpty, !path.contains("\0") else { throw Self.bad("there is no path after unix:") }
      guard path.utf8.count <= Self.maximumPathBytes else {
        throw Self.bad("the path of a Unix socket has at most \(Self.maximumPathBytes) bytes, not \(path.utf8.count)")
      }
      self = .unix(path: path)
      return
    }
    var rest = text.hasPrefix("redis://") ? text.dropFirst(8) : text[...]
    var user: String?
    var password: String?
    if let at = rest.lastIndex(of: "@") {
      let parts = rest[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
      guard parts.count == 2, !parts[1].isEmpty else {
        throw Self.bad("before the @ stands USER:PASSWORD or :PASSWORD")
      }
      user = parts[0].isEmpty ? nil : String(parts[0])
      password = String(parts[1])
      rest = rest[rest.index(after: at)...]
    }
    let (host, port) = try Self.hostAndPort(rest)
    self = .tcp(host: host, port: port, user: user, password: password)
  }

  /// Whether only this machine sees what is said there.
  public var isOnThisMachine: Bool {
    switch self {
    case .unix: true
    case .tcp(let host, _, _, _): host == "localhost" || host == "::1" || Self.isLoopbackV4(host)
    }
  }

  private static func hostAndPort(_ text: Substring) throws(RedisError) -> (String, UInt16) {
    var host = text
    var portText: Substring?
    if text.first == "[" {
      guard let end = text.firstIndex(of: "]") else { throw bad("the closing ] is missing") }
      host = text[text.index(after: text.startIndex)..<end]
      let after = text[text.index(after: end)...]
      guard after.isEmpty || after.first == ":" else { throw bad("after ] stands :PORT") }
      portText = after.isEmpty ? nil : after.dropFirst()
    } else if let colon = text.firstIndex(of: ":") {
      guard text.lastIndex(of: ":") == colon else { throw bad("an IPv6 address stands in brackets: [::1]:6379") }
      host = text[..<colon]
      portText = text[text.index(after: colon)...]
    }
    guard !host.isEmpty, !host.utf8.contains(where: { $0 <= 0x20 || $0 == 0x7F || $0 == 0x2F }) else {
      throw bad("a host name is missing; write HOST:PORT or unix:PATH")
    }
    guard let portText else { return (String(host), 6379) }
    guard let port = UInt16(portText), port > 0 else { throw bad("a port is a number from 1 to 65535") }
    return (String(host), port)
  }

  private static func isLoopbackV4(_ host: String) -> Bool {
    let parts = host.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
  }

  private static func bad(_ text: String) -> RedisError { RedisError(.invalidName, "the address of Redis: \(text)") }
}

extension RedisAddress: CustomStringConvertible {
  /// As `init(parsing:)` reads it, without user and password.
  public var description: String {
    switch self {
    case .unix(let path): "unix:\(path)"
    case .tcp(let host, let port, _, _): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
  }
}
