/// What a login brought.
public struct SIMPSession: Hashable, Sendable {
  /// The user the server knows this connection as.
  public let user: String
  /// The number of this outbox among the user's devices.
  public let deviceNumber: UInt32
  /// The server's node, for logs.
  public let node: String
  /// How datagrams are sealed; nil when the session does without UDP.
  public let cipher: String?
  /// How TCP is encrypted, `TLS 1.3, TLS_AES_128_GCM_SHA256`; nil with TLS off.
  public let tls: String?
  /// How long the session lasts from its login, unless its token is renewed; nil: the server does not say.
  public let tokenLifetime: Duration?
}

/// How a connection stands.
public enum SIMPState: Hashable, Sendable {
  /// An attempt is under way.
  case connecting
  /// Logged in: messages pass, by TCP at least.
  case connected(SIMPSession)
  /// Datagrams pass both ways; the server sees them come from `address`. The round-trip time is nil before the first
  /// measurement.
  case pathUp(address: String, rtt: Duration?)
  /// Datagrams pass, but too many of the last ones were lost, towards the server or from it; shares of 0 to 1. Told again
  /// when it begins or ends for one direction while it holds for the other; `pathUp` follows when it is over for both.
  case pathDegraded(sendingLoss: Double, receivingLoss: Double)
  /// Datagrams do not pass any more: everything goes by TCP until they do.
  case pathDown
  /// The connection was lost, or not made: the next attempt, the `attempt`th since the last good session, follows after
  /// `delay`.
  case reconnecting(attempt: Int, delay: Duration, reason: SIMPError)
  /// The session's token is over in this time, and the session with it. With `configuration.tokenProvider` a new one is
  /// got by itself; else `renew(token:)` brings it. Told when a quarter of the token's time is left, at most 5 minutes
  /// before its end.
  case tokenExpiring(in: Duration)
  /// The session goes on with a new token, which lasts this long; nil: the server does not say.
  case tokenRenewed(lifetime: Duration?)
  /// What came cannot be written to the store. It waits in memory, not receipted, and is tried again each second: nothing
  /// is lost by it, and nothing new comes to `messages` meanwhile.
  case storeFailed(SIMPError)
  /// Over for good: closed by this program (nil), or by an error.
  case closed(SIMPError?)
}

/// How the UDP path of a session stands.
public enum SIMPPath: String, Hashable, Sendable {
  /// No session, or UDP is off.
  case off
  /// Not proven yet in this session.
  case probing
  case up
  /// Up, but over 10 % of the last 128 datagrams were lost, and not yet 5 % or less since.
  case degraded
  /// Its datagrams are not answered.
  case down
}

/// What a connection counted since it was made, over all its sessions.
public struct SIMPStatistics: Hashable, Sendable {
  /// Transmissions of messages by UDP, retransmissions and redundant copies included.
  public internal(set) var sentByUDP: UInt64 = 0
  /// Transmissions of messages by TCP.
  public internal(set) var sentByTCP: UInt64 = 0
  /// Messages that went by TCP because UDP did not bring them through.
  public internal(set) var escalated: UInt64 = 0
  /// Transmissions beyond the first of a message in a session, without `redundantCopies`.
  public internal(set) var retransmitted: UInt64 = 0
  /// Messages sent twice before anything was lost (`configuration.redundancy`).
  public internal(set) var redundantCopies: UInt64 = 0

  /// Bytes of the packets of messages, all transmissions; of the first transmission of each; and of receipts.
  public internal(set) var messageBytesSent: UInt64 = 0
  public internal(set) var messageBytesNeeded: UInt64 = 0
  public internal(set) var receiptBytesSent: UInt64 = 0

  /// Messages with the final receipt DELIVERED or READ.
  public internal(set) var delivered: UInt64 = 0
  public internal(set) var stored: UInt64 = 0
  /// REJECTED or EXPIRED.
  public internal(set) var failed: UInt64 = 0
  /// Messages that wait for a final receipt.
  public internal(set) var unfinished = 0

  /// Messages that came, each counted once.
  public internal(set) var received: UInt64 = 0
  /// Those of them that came by UDP first.
  public internal(set) var receivedByUDP: UInt64 = 0
  /// Copies of messages that had come before.
  public internal(set) var duplicatesDropped: UInt64 = 0
  /// Messages shown after later ones, for the wait for them was over.
  public internal(set) var late: UInt64 = 0

  /// Whether datagrams pass; it does not tell `degraded` from `up`.
  public internal(set) var path = SIMPPath.off
  /// The same for each direction, `degraded` included: to the server, and from it.
  public internal(set) var sendingPath = SIMPPath.off
  public internal(set) var receivingPath = SIMPPath.off
  /// The share of the last 128 datagrams of a direction that was lost, 0 to 1.
  public internal(set) var sendingLoss = 0.0
  public internal(set) var receivingLoss = 0.0
  /// Round-trip times by UDP, nil before the first measurement of the session: smoothed, the last one, the shortest.
  public internal(set) var rtt: Duration?
  public internal(set) var latestRTT: Duration?
  public internal(set) var minimumRTT: Duration?
  /// Bytes that may be under way by UDP at a time, and that are.
  public internal(set) var congestionWindow = 0
  public internal(set) var bytesInFlight = 0
  public internal(set) var datagramsSent: UInt64 = 0
  public internal(set) var datagramsReceived: UInt64 = 0
  /// Sent and taken for lost.
  public internal(set) var datagramsLost: UInt64 = 0
  /// Those of them whose receipt came after all: what was in them was sent again for nothing.
  public internal(set) var datagramsSpurious: UInt64 = 0
  /// Times that no receipt came for so long that it was asked for anew.
  public internal(set) var probeTimeouts: UInt64 = 0
  /// Received and dropped: wrong tag, received before, or malformed.
  public internal(set) var datagramsRefused: UInt64 = 0
  /// Dropped by the configured impairment, both ways.
  public internal(set) var datagramsImpaired: UInt64 = 0
  /// Sessions that began.
  public internal(set) var logins: UInt64 = 0
  /// Those of them whose TLS handshake took up an earlier session.
  public internal(set) var resumed: UInt64 = 0
}
