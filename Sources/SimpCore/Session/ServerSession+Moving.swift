/// Where its datagrams go: proofs, and changes of address.
extension ServerSession {
  struct Move {
    /// The last proven address.
    var home: PeerAddress
    /// When the new one is given up.
    var end: Instant
    var nextChallenge: Instant
    /// The challenge of the old address waits to be sent.
    var asksHome: Bool
    /// What flew to the old address has probably got lost.
    var probes: Bool
  }

  var provingTime: Interval { channel.rtt.probeTimeout(receiptDelay: .zero) }

  /// The client's newest datagram came from another address than its datagrams go to: they go there from now on, under
  /// the amplification limit until it is proven. Whoever copies the client's datagrams and is faster gets so much and no
  /// more: the old address is asked as well, and an answer from there brings everything back.
  func follow(_ address: PeerAddress, now: Instant) {
    guard let home = provenAddress else { return }
    guard address != home else {
      channel.moveBack(to: home, now: now)
      move = nil
      channel.allowance = nil
      return
    }
    channel.move(to: address)
    let asks = nextMoveAsks <= now
    if asks { nextMoveAsks = now + provingTime }
    move = Move(
      home: home, end: now + provingTime * WireTimes.provingProbeTimeouts, nextChallenge: now + provingTime,
      asksHome: asks, probes: asks)
    channel.allowance = 0
  }

  func continueMove(now: Instant, send: (Span<UInt8>, PeerAddress) -> Void) {
    guard var move, let peer = channel.peer else { return }
    guard channel.path == .up, move.end > now else {
      self.move = nil
      channel.allowance = nil
      if channel.path == .up { channel.moveBack(to: move.home, now: now) }
      return
    }
    if move.asksHome {
      move.asksHome = false
      channel.sendControl(
        [(.pathChallenge, random() | 1)], padded: true, eliciting: false, to: move.home, now: now, send: send)
    }
    if move.nextChallenge <= now {
      move.nextChallenge = now + provingTime
      paths.challengeAgain(peer)
    }
    let reserve = paths.isChallengeDue(to: peer) ? WireLimits.maximumDatagramBytes : 0
    channel.allowance = max(0, paths.allowance(for: peer) - reserve)
    if move.probes, channel.sent.hasElicitingInFlight, channel.sent.room >= WireLimits.maximumDatagramBytes {
      channel.sendProbe(now: now, floor: { $0.order }, send: send)
    }
    move.probes = false
    self.move = move
  }

  /// Asks for a proof on TCP when datagrams went unheard and none came: a client that only listens may have another
  /// address, and has no other way to show it.
  func askForProof(since timeouts: Int, now: Instant) {
    guard channel.path == .up, channel.sent.probeTimeouts > timeouts else { return }
    guard channel.lastArrival + provingTime <= now else { return }
    channel.writeStream(.probeRequest) { _ in }
  }

  /// When the client has missed two keep-alives.
  var silenceEnds: Instant {
    channel.path == .up
      ? channel.lastArrival + WireTimes.udpKeepAlive * WireTimes.downKeepAlives + WireTimes.keepAliveGrace : .never
  }

  func pathProven(_ address: PeerAddress, now: Instant) {
    let isNews = channel.path != .up || provenAddress != address
    move = nil
    channel.pathProven(address, now: now)
    nextProbeRequest = .never
    guard isNews else { return }
    writePathUp(address, now: now)
    owner.session(self, provedPath: address, now: now)
  }

  /// The client challenges a path that is proven and up here. It was down for the client alone, and nothing but PATH_UP
  /// tells it that no more proofs are needed; or the challenge was under way when PATH_UP left.
  func confirmPath(to address: PeerAddress, now: Instant) {
    // BOUND: however many challenges come, the stream gets one packet in this time.
    guard channel.path == .up, address == provenAddress, lastPathUp + WireTimes.pathUpAgain <= now else { return }
    writePathUp(address, now: now)
  }

  private func writePathUp(_ address: PeerAddress, now: Instant) {
    lastPathUp = now
    channel.writeStream(.pathUp) { PathUpPayload.append(address, to: &$0) }
  }
}
