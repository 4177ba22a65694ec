internal import SimpAccess
internal import SimpConnection
internal import SimpIO
internal import SimpSupport
internal import SimpToken

/// How a command reaches a server, and as whom.
struct Access: Sendable {
  let server: String
  var configuration: SIMPConnection.Configuration
  private let token: String

  static let flags =
    [
      Flag(
        "server", placeholder: "HOST:PORT", default: "127.0.0.1:7467", isSetting: true, help: "where, or SIMP_SERVER"),
      Flag("token-file", placeholder: "FILE", isSetting: true, help: "file with your token (or SIMP_TOKEN: the token)"),
      Flag("as", placeholder: "USER", help: "make a token for USER with the server's key"),
      Flag("key", placeholder: "FILE", default: TokenCommand.defaultKey, isSetting: true, help: "that key, for --as"),
      Flag("audience", placeholder: "TEXT", isSetting: true, help: "aud of that token, for a server with --audience"),
      Flag("issuer", placeholder: "TEXT", isSetting: true, help: "iss of it, for a server with --issuer"),
      Flag("no-udp", isSetting: true, help: "TCP only"),
    ] + TrustSettings.flags

  /// Reads the flags and finds a token: by `--as`, then `--token-file` or SIMP_TOKEN_FILE, then SIMP_TOKEN.
  ///
  /// - Parameter administrator: makes a token for this user, an administrator's, with the server's key, unless a flag
  ///   names another or the key cannot be had.
  /// - Throws: what is wrong or missing, and how to get it.
  init(
    _ settings: Settings, administrator: String? = nil,
    environment: (String) -> String? = Settings.processEnvironment
  ) throws(UsageError) {
    server = settings.string("server") ?? ""
    configuration = SIMPConnection.Configuration()
    configuration.software = "simp"
    configuration.connectTimeout = .seconds(15)
    configuration.usesUDP = try !settings.isOn("no-udp")
    configuration.tls = SIMPConnection.Configuration.TLS(
      try TrustSettings(settings, server: server, keyPath: settings.string("key")))
    let path = settings.string("key") ?? TokenCommand.defaultKey
    var grant = TokenGrant(user: settings.string("as") ?? administrator ?? "", lifetimeSeconds: 3600)
    grant.audience = settings.string("audience")
    grant.issuer = settings.string("issuer")
    grant.isAdmin = administrator != nil
    if settings.string("as") != nil {
      guard settings.origin("token-file") != "--token-file" else {
        throw UsageError("--as makes a token, --token-file names one: give one of them")
      }
      let mint = try Self.minter(grant, keyPath: path)
      token = try mint()
      configuration.tokenProvider = { try mint() }
    } else if let path = settings.string("token-file") {
      token = try Self.readToken(path)
      // Whoever renews the file keeps the connection alive beyond the life of one token.
      configuration.tokenProvider = { try Self.readToken(path) }
    } else if administrator != nil, let mint = try? Self.minter(grant, keyPath: path) {
      token = try mint()
      configuration.tokenProvider = { try mint() }
    } else if let text = environment("SIMP_TOKEN"), case let trimmed = Self.trimmed(text), !trimmed.isEmpty {
      token = trimmed
    } else {
      throw UsageError(
        "no token: set SIMP_TOKEN or give --token-file FILE. Whoever can read the server's key gets one by\n"
          + "simp token USER --key FILE, or adds --as USER --key FILE to the command")
    }
  }

  /// Of the commands that keep messages in a file.
  static let storeFlag = Flag(
    "store", placeholder: "FILE", isSetting: true,
    help: "keep messages there until they are done with; one user, one program at a time")

  func connection(sendsOnly: Bool) throws(SIMPError) -> SIMPConnection {
    var configuration = configuration
    configuration.isSendOnly = sendsOnly
    return try SIMPConnection(to: server, token: token, configuration: configuration)
  }

  /// Tokens of an hour, a fresh one for each login.
  private static func minter(
    _ grant: TokenGrant, keyPath: String
  ) throws(UsageError) -> @Sendable () throws(UsageError) -> String {
    do throws(TokenError) {
      let key = try TokenKey.load(path: keyPath)
      return { () throws(UsageError) in
        do throws(TokenError) {
          return try Tokens.mint(grant, key: key, now: EventLoop.wallClockSeconds)
        } catch {
          throw UsageError("\(quoted(grant.user)): \(error)")
        }
      }
    } catch {
      throw UsageError("\(error)")
    }
  }

  private static func readToken(_ path: String) throws(UsageError) -> String {
    let bytes = try FileContents.read(path: path, maximumBytes: 16_384)
    let text = trimmed(String(decoding: bytes, as: UTF8.self))
    guard !text.isEmpty else { throw UsageError("\(path): holds no token; simp token USER prints one") }
    return text
  }

  private static func trimmed(_ text: String) -> String {
    var text = text[...]
    while text.first?.isWhitespace == true { text.removeFirst() }
    while text.last?.isWhitespace == true { text.removeLast() }
    return String(text)
  }
}

extension UsageError {
  /// - Throws: when `name` is no user name.
  static func checkUser(_ name: String) throws(UsageError) {
    guard Tokens.isValidUser(name) else {
      throw UsageError("\(quoted(name)) is no user name: 1 to 64 of A-Z a-z 0-9 . _ @ -")
    }
  }
}
