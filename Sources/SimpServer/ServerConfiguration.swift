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

  public enum TLS: Sendable, Hashable {
    /// The control channel is clear text: tokens and the keys of datagrams can be read on the way.
    case off
    /// A certificate that the server makes for itself in the state directory.
    case own
    /// PEM files; the first with the chain to an authority behind the certificate, if there is one.
    case files(certificate: String, key: String)
  }

  /// The address both ports are opened on.
  public var listen = PeerAddress.v4(127, 0, 0, 1, port: 0)
  /// TCP; 0: the kernel chooses.
  public var port: UInt16 = 7467
  /// UDP; 0: the kernel chooses.
  public var udpPort: UInt16 = 7468
  /// Signing key, certificate, lock, embedded Redis.
  public var stateDirectory = "simp-state"
  public var redis = Redis.embedded
  /// Threads, each with its own loop and sessions. 1 to 64.
  /// Of the embedded Redis; 0: any.
  public var redisMemoryBytes = 1 << 30
  public var reactors = 1
  public var tls = TLS.own
  /// Datagrams of a direction after which the server changes its key. 1 to 4194304; small numbers are for tests.
  public var keyPhaseDatagrams = WireLimits.keyPhaseDatagrams
  /// The file with the keys of tokens; nil: `signing.key` in the state directory.
  public var keys: String?
  /// What `aud` of a token has to be; nil: `simp`, where there is one.
  public var audience: String?
  /// What `iss` of a token has to be; nil: anything.
  public var issuer: String?
  /// How far the clocks of issuer and server may be apart. 0 to 300 s, whole seconds.
  public var leeway = Duration.seconds(5)
  /// Listens beyond loopback also when the control channel is clear text.
  public var isInsecureAllowed = false
  public var limits = ServerLimits()

  public init() {}

  public static let flags: [Flag] = commonFlags + topics.flatMap(\.flags)

  /// What has a page of its own in the help: `simp-server help tokens`.
  public static let topics: [(name: String, flags: [Flag])] = [
    ("tokens", tokenFlags), ("limits", ServerLimits.flags),
  ]

  private static let tokenFlags: [Flag] = [
    Flag(
      "keys", placeholder: "FILE", isSetting: true,
      help: "keys of tokens, a JSON Web Key Set (none: DIR/signing.key)"),
    Flag("audience", placeholder: "TEXT", isSetting: true, help: "aud that a token must have (none: simp, or no aud)"),
    Flag("issuer", placeholder: "TEXT", isSetting: true, help: "iss that a token must have (none: any)"),
    Flag(
      "leeway", placeholder: "TIME", default: "5s", isSetting: true,
      help: "how far clocks may be apart when a token begins or ends, at most 300s"),
  ]

  /// Those that `--help` lists.
  public static let commonFlags: [Flag] = [
    Flag(
      "listen", placeholder: "ADDRESS", default: "127.0.0.1", isSetting: true, help: "address to listen on, numeric"),
    Flag("port", placeholder: "PORT", default: "7467", isSetting: true, help: "TCP port; 0: any"),
    Flag("udp-port", placeholder: "PORT", default: "7468", isSetting: true, help: "UDP port; 0: any"),
    Flag(
      "state", placeholder: "DIR", default: "simp-state", isSetting: true,
      help: "signing key, certificate, lock and embedded Redis"),
    Flag(
      "redis", placeholder: "WHERE", default: "embedded", isSetting: true,
      help: "HOST:PORT, unix:PATH, or embedded (a private one)"),
    Flag(
      "redis-memory", placeholder: "BYTES", default: "1073741824", isSetting: true,
      help: "memory of the embedded Redis; full, it takes no more messages; 0: any"),
    Flag("reactors", placeholder: "COUNT", default: "1", isSetting: true, help: "threads that serve sessions"),
    Flag(
      "tls", placeholder: "on|off", default: "on", isSetting: true,
      help: "TLS 1.3 on TCP; off is for loopback"),
    Flag(
      "tls-cert", placeholder: "FILE", isSetting: true,
      help: "certificate and its chain, PEM (none: makes its own, DIR/server.crt)"),
    Flag("tls-key", placeholder: "FILE", isSetting: true, help: "its private key, PEM"),
    Flag(
      "key-phase-packets", placeholder: "COUNT", default: "65536", isSetting: true,
      help: "datagrams until the server changes its key; small numbers are for tests"),
    Flag("insecure", isSetting: true, help: "with --tls off: listen beyond loopback all the same"),
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
    redisMemoryBytes = try settings.integer("redis-memory", in: 0...1 << 50) ?? 1 << 30
    if redisMemoryBytes > 0, redisMemoryBytes < 16 << 20 {
      throw UsageError("--redis-memory takes 16777216 or more, or 0 for any amount, not \(redisMemoryBytes)")
    }
    reactors = try settings.integer("reactors", in: 1...64) ?? 1
    keyPhaseDatagrams = UInt64(
      try settings.integer("key-phase-packets", in: 1...4_194_304) ?? Int(WireLimits.keyPhaseDatagrams))
    isInsecureAllowed = try settings.isOn("insecure")
    limits = try ServerLimits(settings)
    tls = try Self.tls(settings)
    keys = settings.string("keys")
    audience = settings.string("audience")
    issuer = settings.string("issuer")
    leeway = try settings.duration("leeway", in: .zero ... .seconds(300)) ?? .seconds(5)
    guard listen.isLoopback || isInsecureAllowed || tls != .off else {
      throw UsageError(
        "--listen \(host) is reachable from other machines, and with --tls off tokens and keys could be read on the "
          + "way. Leave TLS on, listen on 127.0.0.1, or add --insecure on a network you trust")
    }
  }

  private static func tls(_ settings: Settings) throws(UsageError) -> TLS {
    let isOn = try settings.choice("tls", of: ["on", "off"]) != "off"
    switch (settings.string("tls-cert"), settings.string("tls-key")) {
    case (nil, nil): return isOn ? .own : .off
    case (let certificate?, let key?):
      guard isOn else { throw UsageError("--tls off leaves no use for --tls-cert and --tls-key") }
      return .files(certificate: certificate, key: key)
    case (_?, nil): throw UsageError("--tls-cert needs --tls-key FILE, the certificate's private key")
    case (nil, _?): throw UsageError("--tls-key needs --tls-cert FILE, the key's certificate")
    }
  }
}
