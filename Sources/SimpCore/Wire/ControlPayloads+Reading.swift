internal import CProtobufC
internal import CSimpMessages

/// Control payloads are read by protobuf-c. Strings are checked in the packet's bytes first: protobuf-c would cut one
/// at U+0000 and let through what is not UTF-8.
enum Control {
  static func checkText(_ payload: Span<UInt8>, fields: UInt64) throws(WireError) {
    var reader = ProtobufReader(payload)
    while let field = try reader.next() {
      guard field.kind == .bytes, field.number < 64, fields >> UInt64(field.number) & 1 == 1 else { continue }
      guard Text.isValid(payload.extracting(field.range)) else { throw .textInvalid }
    }
  }

  static func unpack<Value>(
    _ payload: Span<UInt8>, text: UInt64,
    with unpack: (UnsafeMutablePointer<ProtobufCAllocator>?, Int, UnsafePointer<UInt8>?) -> UnsafeMutablePointer<Value>?
  ) throws(WireError) -> UnsafeMutablePointer<Value> {
    try checkText(payload, fields: text)
    // SAFETY: protobuf-c reads `count` bytes during the call and keeps none of them. An empty payload has no address
    // to give, so it gets one.
    let message = unsafe payload.withUnsafeBufferPointer { bytes in
      if let base = bytes.baseAddress { return unsafe unpack(nil, bytes.count, base) }
      var nothing: UInt8 = 0
      return unsafe unpack(nil, 0, &nothing)
    }
    guard let message = unsafe message else { throw .malformed }
    return unsafe message
  }

  static func string(_ pointer: UnsafeMutablePointer<CChar>?) -> String {
    // SAFETY: protobuf-c ends each string with U+0000, and it lives as long as its message.
    guard let pointer = unsafe pointer else { return "" }
    return unsafe String(cString: pointer)
  }
}

extension Login {
  /// - Throws: `malformed`, `textInvalid`; `tooLarge` for a token over `WireLimits.maximumTokenBytes`.
  public init(reading payload: Span<UInt8>) throws(WireError) {
    let message = unsafe try Control.unpack(payload, text: 1 << 1 | 1 << 8, with: simp__login__unpack)
    // SAFETY: freed once, after the last use; the fields are copied.
    defer { unsafe simp__login__free_unpacked(message, nil) }
    self.init()
    let login = unsafe message.pointee
    token = unsafe Control.string(login.token)
    protocolMinimum = unsafe login.protocol_min
    protocolMaximum = unsafe login.protocol_max
    features = unsafe login.features
    outboxId = unsafe login.outbox_id
    deviceNumber = unsafe login.device_number
    sendOnly = unsafe login.send_only != 0
    software = unsafe Control.string(login.software)
    receiveMessages = unsafe login.receive_messages
    receiveBytes = unsafe login.receive_bytes
    // BOUND: two suites exist; a peer that lists more than 16 gains nothing.
    for index in 0..<min(unsafe login.n_ciphers, 16) { ciphers.append(unsafe login.ciphers[index]) }
    if token.utf8.count > WireLimits.maximumTokenBytes { throw .tooLarge }
  }
}

extension LoginReply {
  /// - Throws: `malformed`, `textInvalid`.
  public init(reading payload: Span<UInt8>) throws(WireError) {
    let message = unsafe try Control.unpack(payload, text: 1 << 3 | 1 << 11, with: simp__login_reply__unpack)
    // SAFETY: freed once, after the last use; the fields are copied.
    defer { unsafe simp__login_reply__free_unpacked(message, nil) }
    self.init()
    let reply = unsafe message.pointee
    protocolVersion = unsafe reply.protocol
    features = unsafe reply.features
    user = unsafe Control.string(reply.user)
    deviceNumber = unsafe reply.device_number
    connectionId = unsafe reply.connection_id
    udpPort = unsafe reply.udp_port
    udpSecret = unsafe Array(UnsafeBufferPointer(start: reply.udp_secret.data, count: reply.udp_secret.len))
    // SAFETY: within the message; it is freed with what it holds, and this of it should not stay behind.
    for index in 0..<Int(unsafe reply.udp_secret.len) { unsafe reply.udp_secret.data[index] = 0 }
    cipher = unsafe reply.cipher
    sessionEpoch = unsafe reply.session_epoch
    serverTime = unsafe reply.server_time
    node = unsafe Control.string(reply.node)
    maximumPacketBytes = unsafe reply.maximum_packet_bytes
    maximumDatagramBytes = unsafe reply.maximum_datagram_bytes
    windowMessages = unsafe reply.window_messages
    windowBytes = unsafe reply.window_bytes
    orderWindow = unsafe reply.order_window
    udpKeepAliveMilliseconds = unsafe reply.udp_keepalive_ms
    tcpKeepAliveMilliseconds = unsafe reply.tcp_keepalive_ms
    idleTimeoutMilliseconds = unsafe reply.idle_timeout_ms
    tokenExpires = unsafe reply.token_expires
    guard deviceNumber > 0, deviceNumber < 1 << 24, udpPort < 65536 else { throw .malformed }
    guard udpPort == 0 || udpSecret.count == 32 else { throw .malformed }
  }
}

extension Refusal {
  /// Reads an `Error` or an `Ended`.
  ///
  /// - Throws: `malformed`, `textInvalid`.
  public init(reading payload: Span<UInt8>) throws(WireError) {
    let message = unsafe try Control.unpack(payload, text: 1 << 2, with: simp__error__unpack)
    // SAFETY: freed once, after the last use; the fields are copied.
    defer { unsafe simp__error__free_unpacked(message, nil) }
    let error = unsafe message.pointee
    self.init(
      ErrorCode(rawValue: UInt32(truncatingIfNeeded: unsafe error.code.rawValue)), unsafe Control.string(error.text),
      retryAfterMilliseconds: unsafe error.retry_after_ms, retrySpreadMilliseconds: unsafe error.retry_spread_ms)
  }
}

/// Payloads of one number: PING, LOGOUT, PROBE_REQUEST, PATH_CHALLENGE and PATH_RESPONSE.
enum TokenPayload {
  static func read(_ payload: Span<UInt8>) throws(WireError) -> UInt64 {
    let message = unsafe try Control.unpack(payload, text: 0, with: simp__ping__unpack)
    // SAFETY: freed once, after the last use.
    defer { unsafe simp__ping__free_unpacked(message, nil) }
    return unsafe message.pointee.token
  }
}

/// PATH_UP: where a client's datagrams come from, as the server sees it.
enum PathUpPayload {
  static func read(_ payload: Span<UInt8>) throws(WireError) -> String {
    let message = unsafe try Control.unpack(payload, text: 1 << 1, with: simp__path_up__unpack)
    // SAFETY: freed once, after the last use.
    defer { unsafe simp__path_up__free_unpacked(message, nil) }
    let host = unsafe Control.string(message.pointee.address)
    let port = unsafe message.pointee.port
    return host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
  }

  static func append(_ address: PeerAddress, to bytes: inout [UInt8]) {
    bytes.appendField(1, string: address.host)
    bytes.appendField(2, varint: UInt64(address.port))
  }
}
