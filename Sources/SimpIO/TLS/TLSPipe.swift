internal import CSimpLinux

/// TLS 1.3 between a stream's socket and its packets. OpenSSL works on memory; the stream carries the bytes.
///
/// A server takes up the session of a client that was here before (RFC 8446, section 2.2); there is no early data, and
/// no renegotiation. On the loop of its stream only.
@safe
public final class TLSPipe: BytePipe {
  /// What was agreed on; for people and tests.
  public struct Agreement: Hashable, Sendable {
    /// `TLS_AES_128_GCM_SHA256`
    public let cipher: String
    /// Whether the handshake went without a certificate, by a ticket of an earlier connection.
    public let isResumed: Bool
  }

  /// How a TLS record begins that refuses something.
  public static let alertByte: UInt8 = 0x15

  /// BOUND: what a client may send before it has shaken hands; hellos with large key shares have under 4 KiB.
  static let maximumClientHandshake = 16 << 10
  /// BOUND: the same of a server, whose certificates come with it.
  static let maximumServerHandshake = 256 << 10
  private static let readBytes = 16 << 10

  private var made: OpaquePointer?
  /// What a server's end is made of once the first bytes are there: OpenSSL's part of it costs more than all the rest, and
  /// a connection that sends nothing needs none.
  private let context: TLSContext?
  /// nil for a server.
  let host: String?
  /// Unix seconds; nil when the dates of the certificate behind a resumed session do not count.
  private let dateCheck: (@Sendable () -> UInt64)?
  private let onSession: (TLSSession?) -> Void
  private var handshakeBytes = 0

  public private(set) var isReady = false
  public private(set) var isEnded = false

  init(serving context: TLSContext) {
    unsafe made = nil
    self.context = context
    host = nil
    dateCheck = nil
    onSession = { _ in }
  }

  /// - Parameters:
  ///   - tls: becomes this pipe's own.
  ///   - dateCheck: the clock, in Unix seconds, by which the certificate behind a resumed session must not have expired.
  ///   - onSession: gets a session to resume; nil when the one it had is to be forgotten.
  init(
    connecting tls: OpaquePointer, host: String, dateCheck: (@Sendable () -> UInt64)?,
    onSession: @escaping (TLSSession?) -> Void
  ) {
    unsafe made = unsafe tls
    context = nil
    self.host = host
    self.dateCheck = dateCheck
    self.onSession = onSession
  }

  deinit { unsafe simp_tls_free(made) }

  /// Whether OpenSSL has a part in it yet.
  var isMade: Bool { unsafe made != nil }

  var tls: OpaquePointer {
    if let made = unsafe made { return unsafe made }
    guard let context else { preconditionFailure("a client's end is made with its pipe") }
    // SAFETY: the connection keeps its own reference to the context; it is freed in deinit.
    guard let fresh = unsafe simp_tls_serve(context.pointer) else {
      preconditionFailure("OpenSSL has no memory for a connection")
    }
    unsafe made = unsafe fresh
    return unsafe fresh
  }

  /// What was agreed on, once the pipe is ready.
  public var agreement: Agreement? {
    guard isReady else { return nil }
    // SAFETY: OpenSSL's names are static texts.
    return Agreement(
      cipher: unsafe String(cString: simp_tls_cipher(tls)), isResumed: unsafe simp_tls_is_resumed(tls) == 1)
  }

  // MARK: BytePipe

  public func start(wire: inout [UInt8]) throws(PipeError) {
    if host != nil { try shakeHands(answer: &wire) }
  }

  /// One record, which holds the hello of every client that is in use (RFC 8446, section 5.1).
  public func greetingShortage(_ wire: Span<UInt8>) -> Int {
    let header = 5
    guard wire.count > 0 else { return header }
    guard wire[0] == 0x16 else { return 0 }
    guard wire.count >= header else { return header - wire.count }
    let length = Int(wire[3]) << 8 | Int(wire[4])
    return length > Self.maximumClientHandshake ? 0 : max(0, header + length - wire.count)
  }

  public func receive(_ wire: Span<UInt8>, plain: inout [UInt8], reply: inout [UInt8]) throws(PipeError) {
    if !isReady && handshakeBytes == 0 && !wire.isEmpty { try checkFirst(wire[0], answer: &reply) }
    // SAFETY: OpenSSL reads what it was fed inside the closure only, where `wire` is alive.
    let failure: PipeError? = unsafe wire.withUnsafeBufferPointer { bytes in
      unsafe simp_tls_feed(tls, bytes.baseAddress, bytes.count)
      defer { _ = unsafe simp_tls_unfeed(tls) }
      do throws(PipeError) {
        if !isReady {
          handshakeBytes += bytes.count
          try shakeHands(answer: &reply)
        }
        if isReady { try read(into: &plain) }
        return nil
      } catch {
        return error
      }
    }
    takeOutput(&reply)
    if host != nil, let session = unsafe simp_tls_take_session(tls) { unsafe onSession(TLSSession(session)) }
    if let failure { throw failure }
  }

  public func send(_ plain: Span<UInt8>, wire: inout [UInt8]) throws(PipeError) {
    precondition(isReady, "bytes were sent before the handshake was done")
    guard !plain.isEmpty else { return }
    // SAFETY: OpenSSL reads the bytes inside the closure only.
    let outcome = unsafe plain.withUnsafeBufferPointer { bytes in
      unsafe simp_tls_write(tls, bytes.baseAddress, bytes.count)
    }
    takeOutput(&wire)
    if outcome != Int32(SIMP_TLS_DONE) { throw brokenRecords }
  }

  public func finish(wire: inout [UInt8]) {
    guard isReady else { return }
    unsafe simp_tls_end(tls)
    takeOutput(&wire)
  }

  // MARK: Steps

  private func shakeHands(answer: inout [UInt8]) throws(PipeError) {
    let outcome = unsafe simp_tls_handshake(tls)
    takeOutput(&answer)
    switch Int(outcome) {
    case SIMP_TLS_DONE:
      try checkResumed()
      isReady = true
    case SIMP_TLS_WANTS_BYTES:
      let limit = host == nil ? Self.maximumClientHandshake : Self.maximumServerHandshake
      guard handshakeBytes <= limit else {
        throw PipeError("the handshake is longer than \(limit) bytes")
      }
    default:
      onSession(nil)
      throw handshakeFailure
    }
  }

  /// A certificate may have expired since its session began; OpenSSL looks at it in full handshakes only.
  private func checkResumed() throws(PipeError) {
    guard let dateCheck, unsafe simp_tls_is_resumed(tls) == 1, let peer = unsafe simp_tls_peer(tls),
      let facts = unsafe CertificateFacts(peer)
    else { return }
    guard Int64(clamping: dateCheck()) <= facts.notAfter else {
      onSession(nil)
      throw expired(facts)
    }
  }

  private func read(into plain: inout [UInt8]) throws(PipeError) {
    while true {
      let before = plain.count
      // SAFETY: OpenSSL writes at most `readBytes` bytes into the temporary room, and says how many.
      let got = unsafe withUnsafeTemporaryAllocation(of: UInt8.self, capacity: Self.readBytes) { room in
        let got = unsafe simp_tls_read(tls, room.baseAddress!, Self.readBytes)
        if got > 0 { unsafe plain.append(contentsOf: UnsafeBufferPointer(rebasing: room[..<Int(got)])) }
        return Int(got)
      }
      if plain.count > before { continue }
      switch got {
      case SIMP_TLS_WANTS_BYTES: return
      case SIMP_TLS_ENDED:
        isEnded = true
        return
      default: throw brokenRecords
      }
    }
  }

  private func takeOutput(_ wire: inout [UInt8]) {
    var bytes: UnsafePointer<UInt8>?
    // SAFETY: the bytes stay until they are said to be taken; they are copied before.
    let count = unsafe simp_tls_output(tls, &bytes)
    guard count > 0 else { return }
    unsafe wire.append(contentsOf: UnsafeBufferPointer(start: bytes, count: count))
    unsafe simp_tls_output_taken(tls)
  }
}
