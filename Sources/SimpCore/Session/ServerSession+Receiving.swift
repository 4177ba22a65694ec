/// What comes from the client.
extension ServerSession {
  /// Bytes from the TCP connection.
  public func receive(stream bytes: Span<UInt8>, now: Instant) {
    guard state != .ended else { return }
    lastHeard = now
    channel.assembler.append(bytes)
    // BOUND: while a login is under way what follows it waits, up to a full packet before login and some.
    if state == .loggingIn, channel.assembler.bufferedBytes > 4 * WireLimits.maximumPacketBytesBeforeLogin {
      return end(Refusal(.notLoggedIn, "too much was sent before the login was answered"), now: now)
    }
    readPackets(now: now)
  }

  func readPackets(now: Instant) {
    do throws(WireError) {
      while state == .awaitingLogin || state == .active, let packet = try channel.assembler.next() {
        let header = try PacketHeader(reading: packet.span, limit: packet.count)
        let payload = packet.span.extracting(WireLimits.headerBytes..<packet.count)
        do throws(WireError) {
          _ = try handle(header, payload, .tcp, now: now)
        } catch {
          // The frame was whole, only its payload is broken: the stream can be read on.
          if !header.flags.contains(.response) { channel.writeError(Refusal(error.code, "\(error)"), to: header) }
          if state == .awaitingLogin { end(Refusal(error.code, "\(error)"), now: now) }
        }
      }
    } catch {
      end(Refusal(error.code, "\(error)"), now: now)
    }
  }

  /// A datagram that carries this session's connection id; decrypted in place.
  ///
  /// - Returns: whether anything came of it, so that a flush may be due; false for what was dropped.
  @discardableResult
  public func receive(datagram: inout MutableSpan<UInt8>, from address: PeerAddress, now: Instant) -> Bool {
    guard state == .active else { return false }
    let size = datagram.count
    source = address
    heldInDatagram.removeAll(keepingCapacity: true)
    let isProven = address == provenAddress && channel.path == .up
    let arrival = channel.receive(datagram: &datagram, isProven: isProven, now: now) {
      (header, payload) throws(WireError) -> Bool in
      try self.handle(header, payload, .udp, now: now)
    }
    source = nil
    guard let arrival else { return channel.isUDPEndNews }
    guard state == .active else { return true }
    if arrival.isAnswered {
      // Its receipt cannot speak for all messages of the datagram: each gets its own word, on TCP.
      for (user, order) in heldInDatagram { report(.accepted, to: user, order: order, now: now) }
    }
    if address != provenAddress || channel.path != .up {
      paths.received(size, from: address, isNewest: arrival.isNewest)
    }
    if arrival.isNewest, address != channel.peer, channel.path == .up { follow(address, now: now) }
    return true
  }

  func handle(
    _ header: PacketHeader, _ payload: Span<UInt8>, _ transport: Transport, now: Instant
  ) throws(WireError) -> Bool {
    guard state == .active else {
      try handleBeforeLogin(header, payload, now: now)
      return true
    }
    switch header.command {
    case .message:
      return try handleMessage(payload, transport, now: now)
    case .receipt:
      try handleReceipt(payload, transport, now: now)
    case .ping:
      try handlePing(header, payload, transport)
    case .pathChallenge where transport == .udp:
      if let source {
        paths.challenged(try TokenPayload.read(payload), from: source)
        confirmPath(to: source, now: now)
      }
    case .pathResponse where transport == .udp:
      if let source, paths.proves(try TokenPayload.read(payload), from: source) { pathProven(source, now: now) }
    case .logout where transport == .tcp && !header.flags.contains(.response):
      let token = try TokenPayload.read(payload)
      channel.writeStream(.logout, flags: .response, sequence: header.sequence) { $0.appendField(1, fixed64: token) }
      finish(Refusal(.unspecified, "logged out"), now: now)
    default:
      if transport == .tcp, !header.flags.contains(.response), let command = header.command,
        let request = try SessionRequest(command, reading: payload)
      {
        let ticket = RequestTicket(command: command, sequence: header.sequence)
        owner.session(self, asks: request, ticket: ticket, now: now)
      } else {
        refuseUnknown(header, transport)
      }
    }
    return true
  }

  func handleBeforeLogin(_ header: PacketHeader, _ payload: Span<UInt8>, now: Instant) throws(WireError) {
    guard header.command == .login, !header.flags.contains(.response) else {
      return channel.writeError(Refusal(.notLoggedIn, "log in first"), to: header)
    }
    let login = try Login(reading: payload)
    state = .loggingIn
    loginSequence = header.sequence
    let spoken = login.protocolMinimum...max(login.protocolMinimum, login.protocolMaximum)
    guard spoken.contains(WireLimits.protocolVersion) else {
      return refuse(
        Refusal(.unsupportedVersion, "this server speaks protocol \(WireLimits.protocolVersion)"), now: now)
    }
    guard login.outboxId != 0 else { return refuse(Refusal(.malformed, "outbox_id is 0"), now: now) }
    owner.session(self, wantsLogin: login, now: now)
  }

  func handleMessage(_ payload: Span<UInt8>, _ transport: Transport, now: Instant) throws(WireError) -> Bool {
    let fields = try MessageFields(reading: payload)
    var verdict: MessageVerdict
    do throws(WireError) {
      try fields.checkFromClient(payload)
      verdict =
        if fields.deviceNumber != deviceNumber {
          .rejected(.deviceMismatch)
        } else if payload.count > limits.messageBytes {
          .rejected(.tooLarge)
        } else if fields.order - fields.floor >= WireLimits.orderWindow {
          .rejected(.outsideWindow)
        } else {
          owner.session(self, received: fields, payload: payload, now: now)
        }
    } catch {
      // Without a name and an order there is nothing an outcome could speak of.
      guard fields.order > 0, Text.isUserName(payload.extracting(fields.toUser)) else { throw error }
      verdict = .rejected(error.code)
    }
    if verdict == .rejected(.tooLarge) { channel.counters.messagesTooLarge += 1 }
    answer(verdict, fields, payload, transport, now: now)
    return switch verdict {
    case .held, .finished: true
    case .later, .rejected: false
    }
  }

  func answer(
    _ verdict: MessageVerdict, _ fields: MessageFields, _ payload: Span<UInt8>, _ transport: Transport, now: Instant
  ) {
    let user = fields.toUser(in: payload)
    switch verdict {
    case .held where transport == .tcp:
      report(.accepted, to: user, order: fields.order, now: now)
    case .held:
      heldInDatagram.append((user, fields.order))
    case .finished(let state):
      if let state { report(state, to: user, order: fields.order, now: now) }
    case .later(let code, let retryAfter):
      report(.later, to: user, order: fields.order, code: code, retryAfter: retryAfter, now: now)
    case .rejected(let code):
      report(.rejected, to: user, order: fields.order, code: code, now: now)
    }
  }

  func handleReceipt(_ payload: Span<UInt8>, _ transport: Transport, now: Instant) throws(WireError) {
    let receipt = try Receipt(reading: payload)
    setRoom(messages: receipt.roomMessages, bytes: receipt.roomBytes)
    if let datagrams = receipt.datagrams {
      try channel.receive(datagrams, byUDP: transport == .udp, now: now)
      _ = channel.takeAccepted()
    }
    guard transport == .tcp else { return }
    for outcome in receipt.outcomes {
      switch outcome.state {
      case .delivered where outcome.isKept, .read where outcome.isKept, .expired where outcome.isKept:
        if takesKept { owner.session(self, heard: outcome, now: now) }
      case .delivered, .read, .later: owner.session(self, reported: outcome, now: now)
      case .unspecified, .accepted, .stored, .rejected, .expired: continue  // not for a recipient to say
      }
    }
  }

  func handlePing(_ header: PacketHeader, _ payload: Span<UInt8>, _ transport: Transport) throws(WireError) {
    let token = try TokenPayload.read(payload)
    guard !header.flags.contains(.response) else { return }
    switch transport {
    case .tcp:
      channel.writeStream(.ping, flags: .response, sequence: header.sequence) { $0.appendField(1, fixed64: token) }
    case .udp:
      // The receipt of the datagram answers a keep-alive; a token asks for its echo.
      if token != 0, let source, source == channel.peer || source == provenAddress { pongs.append(token) }
    }
  }

  func refuseUnknown(_ header: PacketHeader, _ transport: Transport) {
    guard !header.flags.contains(.response), transport == .tcp else { return }
    if header.command == .login {
      channel.writeError(Refusal(.malformed, "this session is logged in"), to: header)
    } else {
      let name = "service \(header.service) command \(header.number)"
      channel.writeError(Refusal(.unknownCommand, "\(name) is not known here"), to: header)
    }
  }
}
