/// Time and output.
extension ServerSession {
  /// What is to be written to the connection, in order.
  public func takeStream() -> [UInt8] { channel.takeStream() }

  public func deadline(now: Instant) -> Instant {
    switch state {
    case .ended: .never
    case .awaitingLogin, .loggingIn: loginDeadline
    case .active:
      min(
        channel.deadline(now: now), lastHeard + WireTimes.idleTimeout, nextProbeRequest, expires,
        min(silenceEnds, move?.end ?? .never, move?.nextChallenge ?? .never))
    }
  }

  /// Lets time do its work and sends what is due; see `ClientSession.flush`.
  public func flush(now: Instant, streamRoom: Int, send: (Span<UInt8>, PeerAddress) -> Void) {
    switch state {
    case .ended: return
    case .awaitingLogin, .loggingIn:
      if loginDeadline <= now {
        let time = limits.loginTime.milliseconds / 1000
        end(Refusal(.timedOut, "no login within \(time) s"), now: now)
      }
      return
    case .active:
      break
    }
    if lastHeard + WireTimes.idleTimeout <= now {
      return end(Refusal(.timedOut, "silent for too long", retryAfterMilliseconds: 1), now: now)
    }
    if expires <= now { return end(Refusal(.tokenExpired, "the token's time is over"), now: now) }
    guard move != nil else { return flushActive(now: now, streamRoom: streamRoom, send: send) }
    flushActive(now: now, streamRoom: streamRoom) { datagram, address in
      paths.noteSent(datagram.count, to: address)
      send(datagram, address)
    }
  }

  func flushActive(now: Instant, streamRoom: Int, send: (Span<UInt8>, PeerAddress) -> Void) {
    let floor = { (key: MessageKey) in key.order }
    let timeouts = channel.sent.probeTimeouts
    let isSilent = silenceEnds <= now
    if isSilent { channel.pathFails() }
    continueMove(now: now, send: send)
    let failed = channel.expire(now: now, floor: floor, send: send)
    askForProof(since: timeouts, now: now)
    if failed || isSilent {
      nextProbeRequest = now
      pathWentDown = now
      owner.sessionPathWentDown(self, now: now)
    }
    if nextProbeRequest <= now {
      // As often as the client proves its path by itself (wire document, section 6): a phone without UDP may sleep.
      let isFresh = now - pathWentDown < WireTimes.probeFast
      let isBusy = channel.window.count > 0
      nextProbeRequest =
        now + (isFresh ? WireTimes.probeEvery : isBusy ? WireTimes.probeBusy : WireTimes.probeSlow)
      channel.writeStream(.probeRequest) { _ in }
    }
    answerPaths(now: now, send: send)
    channel.flush(now: now, streamRoom: streamRoom, floor: floor, send: send)
  }

  func answerPaths(now: Instant, send: (Span<UInt8>, PeerAddress) -> Void) {
    for token in pongs {
      guard let peer = channel.peer else { break }
      channel.sendPong(token, to: peer, now: now, send: send)
    }
    pongs.removeAll()
    while let answer = paths.poll(proven: channel.path == .up ? provenAddress : nil, random: random) {
      channel.sendControl(
        answer.commands, padded: answer.isPadded, eliciting: false, to: answer.address, now: now, send: send)
      // With a move under way each datagram is counted where it leaves.
      if move == nil, answer.isPadded { paths.noteSent(WireLimits.maximumDatagramBytes, to: answer.address) }
    }
  }
}
