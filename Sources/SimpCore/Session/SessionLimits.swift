/// What one session may cost its server. The defaults are those of the wire document, section 14; a server's settings
/// lower or raise them.
public struct SessionLimits: Hashable, Sendable {
  /// From accept to a finished login, the handshake of TLS included.
  public var loginTime = WireTimes.login
  /// Told to the client: messages it may have sent that are not final, and bytes of them.
  public var windowMessages = WireLimits.windowMessages
  public var windowBytes = WireLimits.windowBytes
  /// Messages held for this client and not finished, and bytes of them, whatever room it claims.
  public var pendingMessages = WireLimits.windowMessages
  public var pendingBytes = WireLimits.windowBytes
  /// Bytes of the payload of one MESSAGE.
  public var messageBytes = WireLimits.maximumMessagePayloadBytes
  /// When messages go to the client a second time although nothing is lost yet.
  public var redundancy = Redundancy.idle

  public init() {}
}
