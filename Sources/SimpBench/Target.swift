internal import SimpAccess
internal import SimpSupport
internal import SimpToken

/// The server a run is for: one that runs already, or a private one.
enum Target: Sendable {
  case running(address: String, key: TokenKey, trust: TrustSettings)
  case privateServer(isEncrypted: Bool)

  static let flags =
    [
      Flag("server", placeholder: "HOST:PORT", help: "a running server (none: a private one for the run)"),
      Flag("key", placeholder: "FILE", help: "its signing key, with --server"),
    ] + TrustSettings.flags

  init(_ settings: Settings) throws(UsageError) {
    switch (settings.string("server"), settings.string("key")) {
    case (nil, nil):
      for name in ["pin", "ca", "insecure"] where settings.origin(name) == "--\(name)" {
        throw UsageError("--\(name) is for --server: a private server is known")
      }
      self = .privateServer(isEncrypted: try settings.choice("tls", of: ["on", "off"]) != "off")
    case (nil, _): throw UsageError("--key belongs to --server: say which server has that key")
    case (_, nil): throw UsageError("--server needs --key FILE: the users' tokens are made with the server's key")
    case (let address?, let path?):
      let trust = try TrustSettings(settings, server: address, keyPath: path)
      do throws(TokenError) {
        self = .running(address: address, key: try TokenKey.load(path: path), trust: trust)
      } catch {
        throw UsageError("--key: \(error)")
      }
    }
  }
}

/// A server that is there, for the time of a run.
struct Place: Sendable {
  let address: String
  let key: TokenKey
  let trust: TrustSettings
  /// The process, when it is a private one.
  let pid: Int32?
  /// The private one, for those who make trouble for it.
  var server: PrivateServer?

  /// For people and reports.
  var name: String { pid == nil ? address : "private" }
}
