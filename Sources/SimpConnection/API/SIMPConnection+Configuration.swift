internal import SimpCore
internal import SimpIO
internal import SimpStore

extension SIMPConnection {
  /// How a connection behaves. The defaults are meant to be right.
  public struct Configuration: Sendable {
    /// When the sender of a message is told DELIVERED.
    public enum Acknowledgement: Sendable {
      /// When the message comes out of `messages`; with a store before that, when it is in the store, which lets go of it
      /// when it comes out.
      case automatic
      /// When the application calls `acknowledge()` on it; with a store before that, when it is in the store, which lets
      /// go of it when it is acknowledged.
      case manual
    }

    /// When the last messages go a second time, in a datagram that leaves anyway or after a quarter of the round trip.
    /// Never where the round trip is under 2 ms, and never where the path is full. The server has a setting of its own
    /// for the other direction.
    public enum Redundancy: Sendable {
      /// Never.
      case off
      /// While new messages leave 50 ms apart or more in the mean.
      case idle
      /// Always: twice the bytes.
      case always
    }

    /// How datagrams are sealed.
    public enum Cipher: Sendable, Hashable, CaseIterable {
      /// AES-128-GCM (NIST SP 800-38D).
      case aes128GCM
      /// ChaCha20-Poly1305 (RFC 8439).
      case chaCha20Poly1305

      /// Both, the faster one on this machine first: AES where the processor has instructions for it.
      public static var preference: [Cipher] {
        AEADProtection.preference.map { $0 == AEADProtection.aes128GCM ? .aes128GCM : .chaCha20Poly1305 }
      }

      var number: UInt32 {
        switch self {
        case .aes128GCM: AEADProtection.aes128GCM
        case .chaCha20Poly1305: AEADProtection.chaCha20Poly1305
        }
      }
    }

    /// The port when the address names none.
    public var defaultPort: UInt16 = 7467
    /// How the connection is encrypted, and whom it trusts.
    public var tls = TLS.systemTrust
    /// Whether messages go by UDP where that works. Without, everything goes by TCP.
    public var usesUDP = true
    /// How datagrams may be sealed, in order of preference: the session has the first that the server knows. None: no
    /// UDP.
    public var ciphers = Cipher.preference
    /// Datagrams sealed with one key before the next takes its place, at least 1.
    public var keyPhaseDatagrams = Int(WireLimits.keyPhaseDatagrams)
    /// When messages go a second time by UDP although nothing is lost yet. A copy costs bytes, a loss a round trip.
    public var redundancy = Redundancy.idle
    /// A session that only sends: it ends no other session of its user, and nothing comes to `messages`.
    public var isSendOnly = false
    /// The path of a file that keeps what is sent until its final receipt, and what comes until the application has it,
    /// also when the process is killed; nil keeps it in memory. Made when it is not there. It belongs to one user at one
    /// server, and to one connection at a time.
    public var store: String?
    /// Messages that may wait for a final receipt; then `post` and `send` throw `outboxFull`.
    public var outboxMessages = 16_384
    /// Bytes of them.
    public var outboxBytes = 64 << 20
    /// Messages that may wait for the application, at most 1024: the server is told, and holds back the rest.
    public var bufferMessages = 1024
    /// Bytes of them, at most 4 MiB.
    public var bufferBytes = 4 << 20
    /// How long `connected()` waits for the first session. Attempts go on beyond it until `close()`.
    public var connectTimeout = Duration.seconds(10)
    /// How long one address of the server may take to answer.
    public var attemptTimeout = Duration.seconds(5)
    /// Waits between attempts: a random time up to a bound that begins here, doubles each time up to the second value,
    /// and begins anew after a session of 10 s.
    public var reconnectDelays = (first: Duration.milliseconds(50), last: Duration.seconds(10))
    /// How long a missing message of a sender is waited for, while connected, before later ones are shown.
    public var gapTimeout = Duration.seconds(10)
    /// How long `withConnection` waits at its end for open receipts.
    public var drainTimeout = Duration.seconds(2)
    /// Name and version of the program, for the server's log; at most 64 bytes.
    public var software = ""
    public var acknowledgement = Acknowledgement.automatic
    /// Asked for a token before each login, instead of using the one given at the beginning, and again before the
    /// session's token is over, so that the session goes on: for tokens that expire. If it throws, it is asked again; a
    /// session whose token is over ends, and the next login asks anew.
    public var tokenProvider: (@Sendable () async throws -> String)?
    /// Loses and delays this connection's own datagrams, for tests; nil does nothing.
    public var impairment: SIMPImpairment?

    public init() {}

    func openStore() throws(SIMPError) -> MessageStore? {
      guard let store else { return nil }
      var limits = StoreLimits()
      limits.outboxMessages = outboxMessages
      limits.outboxBytes = outboxBytes
      do throws(StoreError) {
        return try MessageStore(path: store, limits: limits)
      } catch {
        throw SIMPError(error)
      }
    }

    var keyLimits: KeyLimits { KeyLimits(phaseDatagrams: UInt64(max(keyPhaseDatagrams, 1))) }

    var room: (messages: UInt32, bytes: UInt64) {
      (
        UInt32(min(max(bufferMessages, 1), WireLimits.windowMessages)),
        UInt64(min(max(bufferBytes, WireLimits.maximumPacketBytes), WireLimits.windowBytes))
      )
    }
  }
}

extension Redundancy {
  init(_ redundancy: SIMPConnection.Configuration.Redundancy) {
    switch redundancy {
    case .off: self = .off
    case .idle: self = .idle
    case .always: self = .always
    }
  }
}

extension Interval {
  init(_ duration: Duration) {
    let (seconds, attoseconds) = duration.components
    let nanoseconds = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    self =
      nanoseconds.overflow
      ? .seconds(1 << 32)
      : Interval(
        nanoseconds: nanoseconds.partialValue + attoseconds / 1_000_000_000)
  }
}

extension Duration {
  init(_ interval: Interval) { self = .nanoseconds(interval.nanoseconds) }
}
