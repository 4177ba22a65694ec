/// Why a call of the SDK failed, or why a connection is over. Every throwing call of this module throws it.
public struct SIMPError: Error, Hashable, Sendable {
  /// What kind of failure it is: for a program. Later versions may add codes.
  public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The name of the code, as logs show it.
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }
    public var description: String { rawValue }

    /// No session could be had: the name was not found, nobody answered, or not in time.
    public static let connectFailed = Code(rawValue: "connectFailed")
    /// The connection was lost. It is made again by itself.
    public static let connectionLost = Code(rawValue: "connectionLost")
    /// The server did not prove to be one that is trusted, or is beyond loopback with TLS off: the message says why.
    public static let untrusted = Code(rawValue: "untrusted")
    /// TLS did not come about, for one side has it off, is too old, or speaks something else: the message says which.
    public static let tlsFailed = Code(rawValue: "tlsFailed")
    /// The configuration's trust cannot be used: no such file, no certificate in it, no pin.
    public static let invalidTrust = Code(rawValue: "invalidTrust")
    /// The server refused the login, or ended the session, for good.
    public static let refused = Code(rawValue: "refused")
    /// The server does not take the token: made for another server, or damaged.
    public static let tokenInvalid = Code(rawValue: "tokenInvalid")
    /// The token's time is over.
    public static let tokenExpired = Code(rawValue: "tokenExpired")
    /// An administrator sent the user away: tokens issued before that are refused. The connection does not come back by
    /// itself.
    public static let revoked = Code(rawValue: "revoked")
    /// The token does not allow what was asked for.
    public static let forbidden = Code(rawValue: "forbidden")
    /// The same user logged in elsewhere.
    public static let replaced = Code(rawValue: "replaced")
    /// The server is going down, or does not take logins now. The connection tries again by itself.
    public static let unavailable = Code(rawValue: "unavailable")
    /// As many messages, or bytes, as the configuration allows wait for their final receipt.
    public static let outboxFull = Code(rawValue: "outboxFull")
    /// Another connection, of this process or another, has the store.
    public static let storeInUse = Code(rawValue: "storeInUse")
    /// The configured file cannot be a store: it is something else, damaged, of a later version, or may not be opened.
    public static let storeInvalid = Code(rawValue: "storeInvalid")
    /// The store belongs to another user, or another server.
    public static let storeOfAnother = Code(rawValue: "storeOfAnother")
    /// The store takes no changes at present: the disk is full, read-only or broken. What is stored stays.
    public static let storeFailed = Code(rawValue: "storeFailed")
    /// The server refuses this message for good; the message says why.
    public static let rejected = Code(rawValue: "rejected")
    /// The message's time ran out before it was delivered.
    public static let expired = Code(rawValue: "expired")
    /// Asked for DELIVERED, and the message was stored: its recipient gets it later.
    public static let stored = Code(rawValue: "stored")
    /// The connection was closed by this program.
    public static let closed = Code(rawValue: "closed")
    /// It did not happen within the time that the caller, or the configuration, gave.
    public static let timedOut = Code(rawValue: "timedOut")
    /// The task that waited was cancelled. What was sent stays sent.
    public static let cancelled = Code(rawValue: "cancelled")
    /// A user name outside `[A-Za-z0-9._@-]{1,64}`.
    public static let invalidName = Code(rawValue: "invalidName")
    /// Not of the form `host`, `host:port` or `[IPv6]:port`.
    public static let invalidAddress = Code(rawValue: "invalidAddress")
    /// A text holds U+0000.
    public static let invalidText = Code(rawValue: "invalidText")
    /// The message would not fit a packet (about 255 KiB).
    public static let tooLarge = Code(rawValue: "tooLarge")
    /// UDP is off, or does not work at present.
    public static let noPath = Code(rawValue: "noPath")
    /// The operating system refused something: descriptors, memory, permission.
    public static let system = Code(rawValue: "system")
  }

  public let code: Code
  /// What is wrong and what to do, for a person; one line.
  public let message: String
  /// When it makes sense to try again, as the server said; nil when it said nothing.
  public let retryAfter: Duration?

  public init(_ code: Code, _ message: String, retryAfter: Duration? = nil) {
    self.code = code
    self.message = message
    self.retryAfter = retryAfter
  }
}

extension SIMPError: CustomStringConvertible {
  public var description: String { message }
}
