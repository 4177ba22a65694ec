package import SimpIO

extension SIMPConnection.Configuration {
  /// How the connection to the server is encrypted, and whom it trusts. TLS 1.3, nothing older.
  ///
  /// A server that is not trusted, or does not speak TLS, ends a connection that never had a session (`untrusted`,
  /// `tlsFailed`); later it is tried again like a server that is away, for its certificate may be renewed.
  public enum TLS: Hashable, Sendable {
    /// The authorities that the system trusts. The certificate must be for the host in the address.
    case systemTrust
    /// The certificates in this PEM file: of authorities, or of the server itself. The certificate must be for the
    /// host in the address.
    case certificateAuthority(String)
    /// A server with this public key, whatever its certificate says: `sha256:` and 64 hexadecimal digits, SHA-256 of
    /// the SubjectPublicKeyInfo. A server logs it at its start and keeps it in `server.pin`. Several with commas
    /// between them: one of them must be it.
    case pinned(String)
    /// Clear text: token, receipts and the keys of datagrams can be read and forged on the way. Other addresses than
    /// loopback are refused with `untrusted` unless `evenBeyondLoopback`.
    case off(evenBeyondLoopback: Bool = false)
  }
}

/// The trust of connections that share it: certificates are read once, and sessions are resumed across them.
package enum SharedTrust {
  private struct Weak: Sendable { weak var context: TLSClientContext? }

  private static let contexts = Locked<[TLSClientContext.Trust: Weak]>([:])

  /// nil without TLS.
  ///
  /// - Throws: `invalidTrust` when a file cannot be read or a pin is none.
  package static func context(_ tls: SIMPConnection.Configuration.TLS) throws(SIMPError) -> TLSClientContext? {
    let trust: TLSClientContext.Trust
    switch tls {
    case .off: return nil
    case .systemTrust: trust = .system
    case .certificateAuthority(let file): trust = .authorities(file: file)
    case .pinned(let text):
      guard let pins = PublicKeyPin.list(text) else {
        throw SIMPError(.invalidTrust, "'\(text)' is no pin: write sha256: and 64 hexadecimal digits")
      }
      trust = .pins(pins)
    }
    let result = contexts.withLock { contexts -> Result<TLSClientContext, TLSConfigurationError> in
      if let context = contexts[trust]?.context { return .success(context) }
      contexts = contexts.filter { $0.value.context != nil }
      return Result { () throws(TLSConfigurationError) in
        let made = try TLSClientContext(trust)
        contexts[trust] = Weak(context: made)
        return made
      }
    }
    do throws(TLSConfigurationError) {
      return try result.get()
    } catch {
      throw SIMPError(.invalidTrust, "\(error)")
    }
  }
}
