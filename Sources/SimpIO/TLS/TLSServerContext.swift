internal import CSimpLinux

/// A server's certificate and key, and the keys of its session tickets. From any thread.
///
/// `reload` and `replace` change what connections to come are shown; those that are there go on. Tickets stay good
/// over it: their keys belong to this object, and are as old as it. TLS 1.3 mixes fresh keys into a resumed session,
/// so a stolen ticket key opens no recorded traffic.
public final class TLSServerContext: Sendable {
  private let state: Locked<State>
  private let ticketKeys: [UInt8]
  private let certificatePath: String
  private let keyPath: String

  private struct State: Sendable {
    var context: TLSContext
    var facts: CertificateFacts
  }

  /// - Parameters:
  ///   - certificateFile: PEM; the server's own certificate first, then what leads to its authority, if anything does.
  ///   - keyFile: PEM, not encrypted, closed to others than owner and group.
  /// - Throws: what is wrong with them, and the remedy.
  public init(certificateFile: String, keyFile: String) throws(TLSConfigurationError) {
    certificatePath = certificateFile
    keyPath = keyFile
    ticketKeys = RandomBytes.bytes(80)
    state = Locked(try Self.load(certificateFile, keyFile, ticketKeys: ticketKeys))
  }

  /// What the certificate in force says.
  public var facts: CertificateFacts { state.withLock { $0.facts } }

  /// Reads both files again. What was in force stays if they are not good.
  public func reload() throws(TLSConfigurationError) {
    let fresh = try Self.load(certificatePath, keyPath, ticketKeys: ticketKeys)
    state.withLock { $0 = fresh }
  }

  /// The server's end of a connection.
  public func makePipe() -> TLSPipe { TLSPipe(serving: state.withLock { $0.context }) }

  private static func load(
    _ certificatePath: String, _ keyPath: String, ticketKeys: [UInt8]
  ) throws(TLSConfigurationError) -> State {
    let certificates = try PEMFile.read(certificatePath)
    var key = try PEMFile.read(keyPath, isSecret: true)
    defer { key.wipe() }
    var outcome: Int32 = 0
    // SAFETY: everything is read, and `outcome` written, during the call only.
    let made = unsafe simp_tls_server_context(
      certificates, certificates.count, key, key.count, ticketKeys, &outcome)
    guard let context = unsafe made, let facts = CertificateFacts(pem: certificates) else {
      throw failure(Int(outcome), certificatePath, keyPath)
    }
    return State(context: unsafe TLSContext(context), facts: facts)
  }

  private static func failure(_ outcome: Int, _ certificate: String, _ key: String) -> TLSConfigurationError {
    // SAFETY: a static text.
    let words = unsafe String(cString: simp_tls_error_text())
    switch outcome {
    case SIMP_TLS_NO_CERTIFICATE:
      return TLSConfigurationError("\(certificate) holds no certificate: it begins with -----BEGIN CERTIFICATE-----")
    case SIMP_TLS_BAD_CHAIN:
      return TLSConfigurationError("\(certificate): a certificate after the first one is damaged: \(words)")
    case SIMP_TLS_NO_KEY:
      return TLSConfigurationError("\(key) holds no private key: it begins with -----BEGIN PRIVATE KEY-----")
    case SIMP_TLS_ENCRYPTED_KEY:
      return TLSConfigurationError("\(key) is encrypted: write it out without a password (openssl pkey -in \(key))")
    case SIMP_TLS_KEY_MISMATCH:
      return TLSConfigurationError("\(key) is not the key of \(certificate): name the two files that belong together")
    default:
      return TLSConfigurationError("OpenSSL does not take \(certificate) with \(key): \(words)")
    }
  }
}

/// An SSL_CTX, freed with the last that uses it. OpenSSL counts references to it by itself, and what is read of it
/// concurrently it guards; nothing changes it once it is made.
@safe
final class TLSContext: @unchecked Sendable {
  let pointer: OpaquePointer
  init(_ pointer: OpaquePointer) { unsafe self.pointer = unsafe pointer }
  deinit { unsafe simp_tls_context_free(pointer) }
}
