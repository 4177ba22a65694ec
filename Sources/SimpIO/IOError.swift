internal import CSimpLinux
internal import Glibc
internal import SimpCore

/// What the operating system refused, and what a person can do about it.
public struct IOError: Error, Sendable, Equatable {
  /// The errno value.
  public var code: Int32
  /// What was being done, as a phrase: "listen on TCP", "connect".
  public var operation: String
  /// The address, path or program it was done to, when there is one.
  public var subject: String?
  /// Why, when errno alone does not say it (the resolver's or the pipe's own words).
  public var detail: String?

  public init(code: Int32, operation: String, subject: String? = nil, detail: String? = nil) {
    self.code = code
    self.operation = operation
    self.subject = subject
    self.detail = detail
  }

  public var isAddressInUse: Bool { code == EADDRINUSE }
  public var isConnectionRefused: Bool { code == ECONNREFUSED }
  public var isTimedOut: Bool { code == ETIMEDOUT }
  /// The peer's bytes make no sense to the pipe.
  public var isProtocolError: Bool { code == EPROTO }
  /// The pipe says that the peer is not who it should be.
  public var isUntrusted: Bool { code == EKEYREJECTED }

  init(_ error: PipeError, operation: String, with peer: PeerAddress) {
    self.init(
      code: error.isUntrusted ? EKEYREJECTED : EPROTO, operation: operation, subject: "\(peer)", detail: error.reason)
  }

  /// What to do, where that is known.
  public var remedy: String? {
    switch code {
    case EADDRINUSE: "another program has this port: stop it, or choose another port"
    case EADDRNOTAVAIL: "this machine does not have that address: choose one of its own, or 0.0.0.0 or [::] for all"
    case EACCES, EPERM: "permission is missing: ports under 1024 and other people's files need more rights"
    case EMFILE, ENFILE: "too many files are open: raise the limit (ulimit -n, or LimitNOFILE= in the unit)"
    case ECONNREFUSED: "nobody listens there: is the server running, and is the port right?"
    case ETIMEDOUT: "no answer came: is the address right, and does a firewall stand in between?"
    case ENETUNREACH, EHOSTUNREACH: "there is no way to that address from here: check the network and the address"
    case ENODATA: "is the name spelled right, and does name resolution work on this machine?"
    case ENOENT: "check that it exists and that the path is right"
    default: nil
    }
  }
}

extension IOError: CustomStringConvertible {
  /// One line for a person: `listen on TCP 127.0.0.1:7467: Address already in use (another program …)`.
  public var description: String {
    var text = operation
    if let subject { text += " \(subject)" }
    // SAFETY: the C function returns a static string for every argument.
    let reason = unsafe String(cString: simp_error_text(code))
    text += ": " + (detail ?? reason)
    if let remedy { text += " (\(remedy))" }
    return text
  }
}
