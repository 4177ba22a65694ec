internal import SimpSupport
internal import SimpToken

/// The server a run is for: one that runs already, or a private one.
enum Target: Sendable {
  case running(address: String, key: TokenKey)
  case privateServer

  static let flags = [
    Flag("server", placeholder: "HOST:PORT", help: "a running server (none: a private one for the run)"),
    Flag("key", placeholder: "FILE", help: "its signing key, with --server"),
  ]

  init(_ settings: Settings) throws(UsageError) {
    switch (settings.string("server"), settings.string("key")) {
    case (nil, nil): self = .privateServer
    case (nil, _): throw UsageError("--key belongs to --server: say which server has that key")
    case (_, nil): throw UsageError("--server needs --key FILE: the users' tokens are made with the server's key")
    case (let address?, let path?):
      do throws(TokenError) {
        self = .running(address: address, key: try TokenKey.load(path: path))
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
  /// The process, when it is a private one.
  let pid: Int32?

  /// For people and reports.
  var name: String { pid == nil ? address : "private" }
}
