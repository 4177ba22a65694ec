internal import SimpConnection
internal import SimpSupport

extension SIMPError {
  /// What a program ends with when this stopped it.
  var exitCode: Int32 {
    switch code {
    case .connectFailed, .connectionLost, .unavailable, .noPath, .untrusted, .tlsFailed: ExitCode.cannotConnect
    case .refused, .tokenInvalid, .tokenExpired, .replaced, .revoked, .forbidden: ExitCode.loginRefused
    case .timedOut: ExitCode.timedOut
    case .invalidName, .invalidAddress, .invalidTrust, .invalidText, .tooLarge: ExitCode.usage
    case .rejected, .expired, .outboxFull: ExitCode.notDelivered
    default: ExitCode.failed
    }
  }

  /// What to do about it, nil when the message says so already.
  var remedy: String? {
    switch code {
    case .connectFailed: "is simp-server running there? --server HOST:PORT or SIMP_SERVER say where it is"
    case .untrusted:
      "--pin sha256:… or --ca FILE say whom to trust; a server logs its pin, and keeps it in STATE/server.pin"
    case .tokenInvalid, .tokenExpired:
      "get a new one from whoever runs the server: simp token USER --key STATE/signing.key"
    case .forbidden: "an administrator's token does it: simp token USER --admin --key STATE/signing.key"
    case .replaced: "one device a user at a time: whoever logs in last stays"
    default: nil
    }
  }

  /// Error and remedy for standard error.
  var advice: String { "simp: \(printable(message))" + (remedy.map { "\n\($0)" } ?? "") }
}
