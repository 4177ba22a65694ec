public import SimpCore
internal import SimpIO
public import SimpSupport

/// How a server runs. `ServerConfiguration.flags` names every setting; the same names serve the configuration file and,
/// as `SIMP_…`, the environment.
public struct ServerConfiguration: Sendable {
  public enum Redis: Sendable, Hashable {
    /// A private Redis in the state directory.
    case embedded
    /// `HOST:PORT` or `unix:PATH`.
    case external(String)
  }

  /// The address both ports are opened on.
  public var listen = PeerAddress.v4(127, 0, 0, 1, port: 0)
  /// TCP; 0: the kernel chooses.
  public var port: UInt16 = 7467
  /// UDP; 0: the kernel chooses.
  public var udpPort: UInt16 = 7468
  /// Signing key, lock, embedded Redis.
  public var stateDirectory = "simp-state"
  public var redis = Redis.embedded
  /// Threads, each with its own loop and sessions. 1 to 64.
  public var reactors = 1
  /// Listens beyond loopback although the control channel is clear text.
  public var isInsecureAllowed = false

  public init() {}

  public static let flags: [Flag] = [
    Flag(
      "listen", placeholder: "ADDRESS", default: "127.0.0.1", isSetting: true, help: "address to listen on, numeric"),
    Flag("port", placeholder: "PORT", default: "7467", isSetting: true, help: "TCP port; 0: any"),
    Flag("udp-port", placeholder: "PORT", default: "7468", isSetting: true, help: "UDP port; 0: any"),
    Flag(
      "state", placeholder: "DIR", default: "simp-state", isSetting: true,
      help: "signing key, lock and embedded Redis"),
    Flag(
      "redis", placeholder: "WHERE", default: "embedded", isSetting: true,
      help: "HOST:PORT, unix:PATH, or embedded (a private one)"),
    Flag("reactors", placeholder: "COUNT", default: "1", isSetting: true, help: "threads that serve sessions"),
    Flag("insecure", isSetting: true, help: "listen beyond loopback in clear text"),
    Flag(
      "log-level", placeholder: "LEVEL", default: "info", isSetting: true, help: "error, warn, info or debug"),
    Flag("config", placeholder: "FILE", help: "configuration file, a setting a line: name value"),
    Flag("help", short: "h", help: "this text"),
  ]

  /// - Throws: `UsageError` with a sentence that says what is wrong and what would be right.
  public init(_ settings: Settings) throws(UsageError) {
    let port = UInt16(try settings.integer("port", in: 0...65535) ?? 7467)
    let udpPort = UInt16(try settings.integer("udp-port", in: 0...65535) ?? 7468)
    let host = settings.string("listen") ?? "127.0.0.1"
    guard let listen = PeerAddress(literal: host, port: 0) else {
      throw UsageError("--listen takes a numeric address such as 127.0.0.1, ::1 or 0.0.0.0, not \(quoted(host))")
    }
    self.listen = listen
    self.port = port
    self.udpPort = udpPort
    stateDirectory = settings.string("state") ?? "simp-state"
    let redis = settings.string("redis") ?? "embedded"
    self.redis = redis == "embedded" ? .embedded : .external(redis)
    reactors = try settings.integer("reactors", in: 1...64) ?? 1
    isInsecureAllowed = try settings.isOn("insecure")
    guard listen.isLoopback || isInsecureAllowed else {
      throw UsageError(
        "--listen \(host) is reachable from other machines, and the control channel is clear text: tokens and keys "
          + "could be read on the way. Listen on 127.0.0.1, or add --insecure on a network you trust")
    }
  }
}
