internal import SimpCore
internal import SimpIO

extension Driver {
  func start() {
    guard phase == .idle else { return }
    beginAttempt(now: thread.loop.now)
    markDirty()
  }

  func beginAttempt(now: Instant) {
    attempt += 1
    phase = .preparing
    // Each address has its own time; this one is for token and name server.
    due = now + Interval(configuration.attemptTimeout)
    show(.connecting)
    guard let provider = configuration.tokenProvider else { return resolve(token) }
    let attempt = attempt
    Task {
      let token: Result<String, SIMPError>
      do {
        token = .success(try await provider())
      } catch {
        token = .failure(SIMPError(.connectFailed, "no token to log in with: \(error)"))
      }
      execute { driver in driver.tokenCame(token, attempt: attempt) }
    }
  }

  private func tokenCame(_ token: Result<String, SIMPError>, attempt: UInt64) {
    guard attempt == self.attempt, phase == .preparing else { return }
    switch token {
    case .success(let token): resolve(token)
    case .failure(let error): lost(error, now: thread.loop.now)
    }
  }

  private func resolve(_ token: String) {
    Resolver.resolve(host: server.host, port: server.port, loop: thread.loop) { [weak self, attempt] result in
      guard let self, attempt == self.attempt, phase == .preparing else { return }
      switch result {
      case .success(let addresses): connect(to: addresses[...], token: token, last: nil)
      case .failure(let error): lost(SIMPError(.connectFailed, "\(error)"), now: thread.loop.now)
      }
    }
  }

  /// Tries one address after the other.
  func connect(to addresses: ArraySlice<PeerAddress>, token: String, last: IOError?) {
    guard let address = addresses.first else {
      return noneConnected(last)
    }
    due = .never
    let pipe: any BytePipe
    do throws(SIMPError) {
      pipe = try makePipe(to: address)
    } catch {
      return end(error)
    }
    stream = Stream.connect(
      loop: thread.loop, to: address, pipe: pipe, timeout: Interval(configuration.attemptTimeout)
    ) { [weak self, attempt] result in
      guard let self, attempt == self.attempt, phase == .preparing else { return }
      switch result {
      case .success(let stream): logIn(over: stream, token: token)
      case .failure(let error):
        // Of several addresses, one where somebody answers says more than one where nobody does.
        let last = last.flatMap { $0.isOfPipe ? $0 : nil } ?? error
        connect(to: addresses.dropFirst(), token: token, last: last)
      }
    }
    markDirty()
  }

  /// No address of the server gave a connection.
  private func noneConnected(_ error: IOError?) {
    guard let error, error.isOfPipe else {
      let reason = error.map { "\($0)" } ?? "\(server) has no address"
      return lost(SIMPError(.connectFailed, reason), now: thread.loop.now)
    }
    giveUp(SIMPError(error.isUntrusted ? .untrusted : .tlsFailed, "\(server): \(error.detail ?? "\(error)")"))
  }

  /// A person has to act, unless it was good before: then somebody renews a certificate, or a proxy is in the way.
  private func giveUp(_ error: SIMPError) {
    if standing.read(\.hasLoggedIn) { lost(error, now: thread.loop.now) } else { end(error) }
  }

  private func makePipe(to address: PeerAddress) throws(SIMPError) -> any BytePipe {
    guard let trust else {
      guard address.isLoopback || configuration.tls == .off(evenBeyondLoopback: true) else {
        throw SIMPError(
          .untrusted,
          "\(server) is another machine, and with TLS off the token could be read on the way: leave TLS on, or say that "
            + "the network in between is to be trusted")
      }
      return PlainPipe()
    }
    do throws(TLSConfigurationError) {
      return try trust.makePipe(to: server.host, port: server.port)
    } catch {
      throw SIMPError(.invalidAddress, "\(error)")
    }
  }

  private func logIn(over stream: Stream, token: String) {
    let now = thread.loop.now
    if token == self.token { isTokenFresh = false }
    var login = Login()
    login.token = token
    login.sendOnly = configuration.isSendOnly
    login.software = String(
      decoding: configuration.software.utf8.filter { (0x20..<0x7F).contains($0) }.prefix(64), as: UTF8.self)
    login.receiveMessages = configuration.room.messages
    login.receiveBytes = configuration.room.bytes
    if configuration.usesUDP { login.ciphers = configuration.ciphers.map(\.number) }
    let session = ClientSession(
      login, outbox: outbox, inbound: inbound, keyLimits: configuration.keyLimits,
      redundancy: Redundancy(configuration.redundancy), now: now)
    self.stream = stream
    self.session = session
    phase = .online
    due = .never
    var isFirst = trust == nil
    stream.onBytes = { [unowned self] bytes in
      if isFirst {
        isFirst = false
        // No packet begins so: it would be too long.
        if bytes[0] == TLSPipe.alertByte {
          return self.giveUp(
            SIMPError(.tlsFailed, "\(self.server) speaks TLS, and this connection has TLS off: leave TLS on"))
        }
      }
      self.session?.receive(stream: bytes, now: thread.loop.now)
      markDirty()
    }
    stream.onClose = { [unowned self] error in
      let now = thread.loop.now
      // It may have said why before it closed.
      handleEvents(now: now)
      guard phase == .online else { return }
      lost(SIMPError(.connectionLost, error.map { "\($0)" } ?? "the server closed the connection"), now: now)
    }
    stream.onDrain = { [unowned self] in markDirty() }
    markDirty()
  }

  /// The login succeeded: makes the keys, and begins with UDP.
  func startUDP(_ reply: LoginReply, now: Instant) {
    var secret = session?.takeUDPSecret() ?? []
    defer { secret.wipe() }
    guard configuration.usesUDP, let session, let stream, reply.udpPort > 0, reply.udpPort <= 65535,
      secret.count == 32, AEADProtection.isKnown(reply.cipher)
    else { return }
    var address = stream.remoteAddress
    address.port = UInt16(reply.udpPort)
    do throws(IOError) {
      let socket = try ImpairedSocket(loop: thread.loop, family: address.family, impairment: impairment) {
        [unowned self] datagram in
        self.session?.receive(datagram: &datagram, now: thread.loop.now)
        markDirty()
      }
      self.socket = socket
      let protection = AEADProtection(secret: secret, cipher: reply.cipher, isServer: false)
      session.startUDP(protection, server: address, seed: RandomBytes.uint64(), now: now)
    } catch {
      // No socket to be had: TCP carries everything.
      self.socket = nil
    }
  }

  func attemptTimedOut(now: Instant) {
    lost(SIMPError(.connectFailed, "\(server) was not found in time"), now: now)
  }

  /// The attempt failed, or the session is over; it is tried again after a while.
  ///
  /// - Parameters:
  ///   - retryAfter: the server's word, as `spread`; see `Backoff.next`.
  func lost(_ reason: SIMPError, retryAfter: Interval = .zero, spread: Interval = .zero, now: Instant) {
    if isClosing { return end(nil) }
    if let began = sessionBegan { backoff.sessionLasted(now - began) }
    sessionBegan = nil
    dropSession(now: now)
    let delay = backoff.next(retryAfter: retryAfter, spread: spread, random: RandomBytes.uint64())
    phase = .waiting
    due = now + delay
    standing.update { $0.lastFailure = reason }
    show(.reconnecting(attempt: backoff.failures, delay: Duration(delay), reason: reason))
    markDirty()
  }
}

extension IOError {
  /// Somebody answered, and TLS did not come about.
  fileprivate var isOfPipe: Bool { isUntrusted || isProtocolError }
}
