internal import CSimpLinux

/// Whom a client trusts, and the sessions that servers gave it to resume. From any thread.
public final class TLSClientContext: Sendable {
  public enum Trust: Hashable, Sendable {
    /// The authorities that the system trusts, for servers with a certificate of a public authority.
    case system
    /// The certificates in this PEM file: of authorities, or of the server itself.
    case authorities(file: String)
    /// Servers that have one of these keys, whatever their certificates say: names, dates and issuers do not count.
    case pins([PublicKeyPin])
  }

  /// BOUND: servers whose sessions are kept.
  static let maximumSessions = 256

  private let context: TLSContext
  private let trust: Trust
  private let now: @Sendable () -> UInt64
  private let sessions = Locked<[String: TLSSession]>([:])

  /// Reads the trusted certificates.
  ///
  /// - Throws: when the file cannot be read or holds none, or no pin is given.
  public convenience init(_ trust: Trust) throws(TLSConfigurationError) {
    try self.init(trust, now: { EventLoop.wallClockSeconds })
  }

  /// - Parameter now: Unix seconds, for certificates of resumed sessions.
  package init(_ trust: Trust, now: @escaping @Sendable () -> UInt64) throws(TLSConfigurationError) {
    self.trust = trust
    self.now = now
    var outcome: Int32 = 0
    var made: OpaquePointer?
    // SAFETY: everything is read, and `outcome` written, during the calls only.
    switch trust {
    case .pins(let pins):
      guard !pins.isEmpty else { throw TLSConfigurationError("no pin is given: write sha256: and 64 digits") }
      unsafe made = simp_tls_pinning_context()
    case .system:
      unsafe made = simp_tls_verifying_context(nil, 0, &outcome)
    case .authorities(let file):
      let bytes = try PEMFile.read(file)
      unsafe made = simp_tls_verifying_context(bytes, bytes.count, &outcome)
      guard outcome != Int32(SIMP_TLS_NO_CERTIFICATE) else {
        throw TLSConfigurationError("\(file) holds no certificate: it begins with -----BEGIN CERTIFICATE-----")
      }
    }
    guard let made = unsafe made else {
      throw TLSConfigurationError("OpenSSL does not start: \(unsafe String(cString: simp_tls_error_text()))")
    }
    context = unsafe TLSContext(made)
  }

  /// The client's end of a connection to a server.
  ///
  /// - Parameters:
  ///   - host: the name or address as the user gave it: the certificate must be for it, unless its key is pinned.
  ///   - port: with the host it tells whose session is resumed.
  /// - Throws: when no certificate can be for `host`.
  public func makePipe(to host: String, port: UInt16) throws(TLSConfigurationError) -> TLSPipe {
    let server = "\(host):\(port)"
    var pins: [UInt8] = []
    if case .pins(let list) = trust { pins = list.flatMap(\.digest) }
    let address = HostAddress(host)?.text
    // A dot at the end only tells the resolver where to look.
    let name = address ?? (host.hasSuffix(".") ? String(host.dropLast()) : host)
    let session = sessions.withLock { $0[server] }
    // SAFETY: everything is read during the call; OpenSSL takes a reference of its own to the session.
    let made = unsafe simp_tls_connect(
      context.pointer, name, address == nil ? 0 : 1, pins, pins.count / PublicKeyPin.bytes, session?.pointer)
    guard let tls = unsafe made else {
      throw TLSConfigurationError("'\(host)' is neither an address nor a name that a certificate can be for")
    }
    var dateCheck: (@Sendable () -> UInt64)? = now
    if !pins.isEmpty { dateCheck = nil }
    return unsafe TLSPipe(connecting: tls, host: host, dateCheck: dateCheck) { [weak self] session in
      self?.keep(session, for: server)
    }
  }

  /// nil: the session that was there did no good.
  private func keep(_ session: TLSSession?, for server: String) {
    sessions.withLock { sessions in
      if session != nil, sessions.count >= Self.maximumSessions, sessions[server] == nil, let any = sessions.keys.first
      {
        sessions[any] = nil
      }
      sessions[server] = session
    }
  }
}

/// An SSL_SESSION, freed with the last that uses it; OpenSSL guards what it changes in it.
@safe
final class TLSSession: @unchecked Sendable {
  let pointer: OpaquePointer
  init(_ pointer: OpaquePointer) { unsafe self.pointer = unsafe pointer }
  deinit { unsafe simp_tls_session_free(pointer) }
}
