/// The payloads of service 1, as values. Fields, units and ranges: Protocols/session.proto.
public struct Login: Hashable, Sendable {
  public var token = ""
  public var protocolMinimum = WireLimits.protocolVersion
  public var protocolMaximum = WireLimits.protocolVersion
  public var features: UInt64 = 0
  public var outboxId: UInt64 = 0
  public var deviceNumber: UInt32 = 0
  public var sendOnly = false
  public var software = ""
  public var receiveMessages: UInt32 = 0
  public var receiveBytes: UInt64 = 0
  /// AEAD suites in order of preference; empty: this client does not use UDP.
  public var ciphers: [UInt32] = []

  public init() {}
}

public struct LoginReply: Hashable, Sendable {
  public var protocolVersion = WireLimits.protocolVersion
  public var features: UInt64 = 0
  public var user = ""
  public var deviceNumber: UInt32 = 0
  public var connectionId: UInt64 = 0
  public var udpPort: UInt32 = 0
  public var udpSecret: [UInt8] = []
  public var cipher: UInt32 = 0
  public var sessionEpoch: UInt64 = 0
  public var serverTime: UInt64 = 0
  public var node = ""
  public var maximumPacketBytes = UInt32(WireLimits.maximumPacketBytes)
  public var maximumDatagramBytes = UInt32(WireLimits.maximumDatagramBytes)
  public var windowMessages = UInt32(WireLimits.windowMessages)
  public var windowBytes = UInt64(WireLimits.windowBytes)
  public var orderWindow = UInt32(WireLimits.orderWindow)
  public var udpKeepAliveMilliseconds = UInt32(WireTimes.udpKeepAlive.milliseconds)
  public var tcpKeepAliveMilliseconds = UInt32(WireTimes.tcpKeepAlive.milliseconds)
  public var idleTimeoutMilliseconds = UInt32(WireTimes.idleTimeout.milliseconds)
  /// Unix milliseconds; 0: the server does not say.
  public var tokenExpires: UInt64 = 0

  public init() {}
}

/// Why a request was refused or a session is over: `Error` and `Ended` of session.proto have the same fields.
public struct Refusal: Error, Hashable, Sendable {
  public var code: ErrorCode
  /// For a person.
  public var text: String
  /// 0: do not come back without a change.
  public var retryAfterMilliseconds: UInt32
  /// Who comes back waits a random time up to this besides, so that all who are told the same do not come as one.
  /// 0: up to as long again as `retryAfterMilliseconds`.
  public var retrySpreadMilliseconds: UInt32

  public init(
    _ code: ErrorCode, _ text: String, retryAfterMilliseconds: UInt32 = 0, retrySpreadMilliseconds: UInt32 = 0
  ) {
    self.code = code
    self.text = text
    self.retryAfterMilliseconds = retryAfterMilliseconds
    self.retrySpreadMilliseconds = retrySpreadMilliseconds
  }
}

// MARK: - Writing

extension Login {
  func append(to bytes: inout [UInt8]) {
    bytes.appendField(1, string: token)
    bytes.appendField(2, varint: UInt64(protocolMinimum))
    bytes.appendField(3, varint: UInt64(protocolMaximum))
    bytes.appendField(4, fixed64: features)
    bytes.appendField(5, fixed64: outboxId)
    bytes.appendField(6, varint: UInt64(deviceNumber))
    bytes.appendField(7, varint: sendOnly ? 1 : 0)
    bytes.appendField(8, string: software)
    bytes.appendField(9, varint: UInt64(receiveMessages))
    bytes.appendField(10, varint: receiveBytes)
    bytes.appendField(11, packed: ciphers.map(UInt64.init))
  }
}

extension LoginReply {
  func append(to bytes: inout [UInt8]) {
    bytes.appendField(1, varint: UInt64(protocolVersion))
    bytes.appendField(2, fixed64: features)
    bytes.appendField(3, string: user)
    bytes.appendField(4, varint: UInt64(deviceNumber))
    bytes.appendField(5, fixed64: connectionId)
    bytes.appendField(6, varint: UInt64(udpPort))
    bytes.appendField(7, bytes: udpSecret)
    bytes.appendField(8, varint: UInt64(cipher))
    bytes.appendField(9, fixed64: sessionEpoch)
    bytes.appendField(10, fixed64: serverTime)
    bytes.appendField(11, string: node)
    bytes.appendField(12, varint: UInt64(maximumPacketBytes))
    bytes.appendField(13, varint: UInt64(maximumDatagramBytes))
    bytes.appendField(14, varint: UInt64(windowMessages))
    bytes.appendField(15, varint: windowBytes)
    bytes.appendField(16, varint: UInt64(orderWindow))
    bytes.appendField(17, varint: UInt64(udpKeepAliveMilliseconds))
    bytes.appendField(18, varint: UInt64(tcpKeepAliveMilliseconds))
    bytes.appendField(19, varint: UInt64(idleTimeoutMilliseconds))
    bytes.appendField(20, fixed64: tokenExpires)
  }
}

extension Refusal {
  func append(to bytes: inout [UInt8]) {
    bytes.appendField(1, varint: UInt64(code.rawValue))
    bytes.appendField(2, string: text)
    bytes.appendField(3, varint: UInt64(retryAfterMilliseconds))
    bytes.appendField(4, varint: UInt64(retrySpreadMilliseconds))
  }
}
