/// What goes out: the choice of the channel, and datagrams filled with what is queued for the peer.
extension Channel {
  // MARK: - Sending

  /// Sends what is due and what fits: datagrams through `send`, the stream into `takeStream()`.
  ///
  /// - Parameters:
  ///   - streamRoom: bytes that the socket's queue may still take.
  ///   - floor: the floor of a message's conversation, for those whose floor is written anew.
  func flush(
    now: Instant, streamRoom: Int, floor: (MessageKey) -> UInt64, send: (Span<UInt8>, PeerAddress) -> Void
  ) {
    if phases.isUsedUp { endUDP(.keyUsedUp) }
    switch path {
    case .up, .degraded:
      sendMessages(now: now, floor: floor, send: send)
      sendCopies(now: now, floor: floor, send: send)
    case .probing where now < holdUntil: break
    case .probing, .down, .off:
      if window.hasUDPWork { counters.messagesEscalated += UInt64(window.divertToTCP()) }
    }
    while stream.count < streamRoom, let (key, message) = window.sendByTCP(now: now) {
      message.append(to: &stream, floor: floor(key))
      counters.messagesByTCP += 1
      if escalationCheck == nil { escalationCheck = now + WireTimes.assist }
    }
    flushReceipts(now: now, send: send)
  }

  private func flushReceipts(now: Instant, send: (Span<UInt8>, PeerAddress) -> Void) {
    let datagramsDue = received.deadline.map { $0 <= now } ?? false
    let mayLeave = path == .up && mayCarryReceipt
    if datagramsDue, mayLeave, !phases.isUsedUp, let peer {
      startDatagram(now: now)
      appendReceipt(now: now)
      finishDatagram(SentDatagram(eliciting: false, sent: now), to: peer, send: send)
    }
    let outcomesDue = outcomes.deadline.map { $0 <= now } ?? false
    guard outcomesDue || (datagramsDue && !mayLeave) else { return }
    repeat {
      var receipt = Receipt(outcomes: outcomes.take(now: now))
      if !mayLeave, received.hasNews {
        receipt.datagrams = received.takeReceipt(now: now)
        phases.receiptLeft()
      }
      writeStream(.receipt, payload: receipt.append)
    } while !outcomes.isEmpty
  }

  /// Writes all outcomes that wait for their time.
  func writeOutcomes(now: Instant) {
    while !outcomes.isEmpty {
      writeStream(.receipt, payload: Receipt(outcomes: outcomes.take(now: now)).append)
    }
  }

  private func sendMessages(
    now: Instant, floor: (MessageKey) -> UInt64, send: (Span<UInt8>, PeerAddress) -> Void
  ) {
    guard let peer else { return }
    while !phases.isUsedUp, let first = nextMessage(now: now) {
      var datagram = SentDatagram(eliciting: true, sent: now)
      startDatagram(now: now)
      datagram.number = sent.nextNumber
      if received.hasNews, mayCarryReceipt {
        appendReceipt(now: now)
        if window.nextForUDP(room: room) == nil {
          // Too little is left beside the receipt: it goes alone.
          finishDatagram(SentDatagram(eliciting: false, sent: now), to: peer, send: send)
          continue
        }
      }
      let firstPacket = scratch.count
      var again = 0
      var hasFirst = false
      var next = first
      repeat {
        if let (message, isFirst) = window.sendByUDP(next, datagram: datagram.number, now: now) {
          message.append(to: &scratch, floor: floor(next))
          datagram.messages.append(next)
          counters.messagesByUDP += 1
          if isFirst { hasFirst = true } else { again += 1 }
        }
        guard let following = window.nextForUDP(room: room) else { break }
        next = following
      } while true
      let messages = datagram.messages
      appendCopies(to: &datagram, floor: floor)
      datagram.wanted = wantsReceipt(isRetransmission: again > 0, hasFirst: hasFirst, now: now)
      if datagram.wanted { PacketWriter.wantReceipt(in: &scratch, packetAt: firstPacket) }
      if hasFirst { lastFirstTransmission = now }
      if escalationCheck == nil { escalationCheck = now + WireTimes.escalation }
      redundancy.left(
        datagram.number, messages, again: again, hasFirst: hasFirst, wanted: datagram.wanted, rtt: sent.rtt, now: now)
      finishDatagram(datagram, to: peer, send: send)
    }
  }

  // MARK: - Tail redundancy

  /// Copies of the last messages, when nothing else left in time. They are the first that a full congestion window, or a
  /// path that is not proven, does without.
  private func sendCopies(
    now: Instant, floor: (MessageKey) -> UInt64, send: (Span<UInt8>, PeerAddress) -> Void
  ) {
    guard let due = redundancy.due, due <= now else { return }
    guard let peer, allowance == nil, !phases.isUsedUp, sent.room >= WireLimits.maximumDatagramBytes,
      !sent.isPaced(now: now)
    else { return redundancy.stop() }
    datagramLimit = WireLimits.maximumDatagramBytes
    var datagram = SentDatagram(eliciting: true, sent: now)
    datagram.wanted = redundancy.wanted
    startDatagram(now: now)
    datagram.number = sent.nextNumber
    let first = scratch.count
    appendCopies(to: &datagram, floor: floor)
    guard !datagram.messages.isEmpty else { return }
    if datagram.wanted { PacketWriter.wantReceipt(in: &scratch, packetAt: first) }
    finishDatagram(datagram, to: peer, send: send)
  }

  private func appendCopies(to datagram: inout SentDatagram, floor: (MessageKey) -> UInt64) {
    let original = redundancy.datagram
    for key in redundancy.take() {
      guard let message = window.copyByUDP(key, datagram: datagram.number, room: room) else { continue }
      message.append(to: &scratch, floor: floor(key))
      datagram.messages.append(key)
      counters.messagesByUDP += 1
      redundancy.copied()
      sent.repeated(original)
    }
  }

  /// The first message of the next datagram; nil when none waits, or congestion window or pacing hold it back.
  private func nextMessage(now: Instant) -> MessageKey? {
    let overhead = WireLimits.maximumDatagramBytes - WireLimits.maximumDatagramPlaintextBytes
    datagramLimit = min(WireLimits.maximumDatagramBytes, sent.room, allowance ?? .max)
    guard window.hasUDPWork else {
      sent.noteIdle()
      blockedSince = nil
      return nil
    }
    guard !sent.isPaced(now: now) else {
      sent.noteLimited()
      return nil
    }
    // A large window is used by full datagrams, or each receipt would call forth many small ones.
    let isSmall = sent.room < WireLimits.maximumDatagramBytes
    if !isSmall || sent.congestion.window < Self.windowOfFullDatagrams,
      let next = window.nextForUDP(room: datagramLimit - overhead)
    {
      blockedSince = nil
      return next
    }
    guard window.hasUDPWork else { return nil }
    // Else it is an address that is not proven that gets no more.
    if isSmall { sent.noteLimited() }
    if blockedSince == nil { blockedSince = now }
    if escalationCheck == nil { escalationCheck = now + WireTimes.escalation }
    return nil
  }

  private func wantsReceipt(isRetransmission: Bool, hasFirst: Bool, now: Instant) -> Bool {
    var wanted = isRetransmission
    if hasFirst, lastFirstTransmission + WireTimes.idleBeforeReceiptWanted <= now { wanted = true }
    if hasFirst, sent.isThin, let pause = betweenAskingThin, lastWanted + pause <= now { wanted = true }
    if isAwaited, !window.hasUDPWork {
      wanted = true
      isAwaited = false
    }
    // Whoever waits for room asks again and again in a round trip, and whenever no other answer is on its way.
    if window.count > windowMessages / 2 || sent.isHalfFull(with: scratch.count),
      lastWanted + betweenAsking <= now || !sent.hasWantedInFlight
    {
      wanted = true
    }
    if wanted { lastWanted = now }
    return wanted
  }

  /// Eight times in a round trip, so that room comes free in small pieces and leaves again in such; not beyond every 2 ms,
  /// and twice on a short path, where answers cost more than they bring.
  private var betweenAsking: Interval {
    let rtt = sent.rtt.smoothed
    return min(rtt / 2, max(rtt / 8, Pacer.leastRTT))
  }

  /// Twice in a round trip: in a flow of a few datagrams nothing else would tell of a loss before two more of them, and
  /// their receipt, have passed. On a short path that costs more than it brings.
  private var betweenAskingThin: Interval? {
    let rtt = sent.rtt.smoothed
    return rtt >= Pacer.leastRTT ? max(rtt / 2, WireTimes.betweenAskingThin) : nil
  }

  func sendProbe(
    now: Instant, floor: (MessageKey) -> UInt64, send: (Span<UInt8>, PeerAddress) -> Void
  ) {
    guard let peer, !phases.isUsedUp else { return }
    var datagram = SentDatagram(eliciting: true, sent: now)
    datagramLimit = min(WireLimits.maximumDatagramBytes, allowance ?? .max)
    guard datagramLimit >= Self.leastProbeBytes else { return }
    startDatagram(now: now)
    datagram.number = sent.nextNumber
    datagram.wanted = true
    if received.hasNews, allowance == nil { appendReceipt(now: now) }
    let firstPacket = scratch.count
    // What only comes late is receipted one by one, and each of that begins the count of probes anew: they would pile up.
    if sent.isOverfull { return finishPing(datagram, to: peer, send: send) }
    for key in sent.oldestMessages(limit: 64) {
      guard let entry = window.entries[key], entry.state == .flying, entry.lastDatagram != datagram.number,
        entry.message.bytes.count <= room
      else { continue }
      guard let (message, _) = window.sendByUDP(key, datagram: datagram.number, now: now) else { continue }
      message.append(to: &scratch, floor: floor(key))
      datagram.messages.append(key)
      counters.messagesByUDP += 1
    }
    // What waits for room in the window goes as well: a probe leaves in any case.
    while let key = window.nextForUDP(room: room),
      let (message, _) = window.sendByUDP(key, datagram: datagram.number, now: now)
    {
      message.append(to: &scratch, floor: floor(key))
      datagram.messages.append(key)
      counters.messagesByUDP += 1
    }
    guard !datagram.messages.isEmpty else { return finishPing(datagram, to: peer, send: send) }
    PacketWriter.wantReceipt(in: &scratch, packetAt: firstPacket)
    redundancy.left(
      datagram.number, datagram.messages, again: datagram.messages.count, hasFirst: false, wanted: true, rtt: sent.rtt,
      now: now)
    finishDatagram(datagram, to: peer, send: send)
  }

  private func finishPing(_ datagram: SentDatagram, to address: PeerAddress, send: (Span<UInt8>, PeerAddress) -> Void) {
    let ping = scratch.count
    PacketWriter.append(.ping, to: &scratch) { _ in }
    PacketWriter.wantReceipt(in: &scratch, packetAt: ping)
    finishDatagram(datagram, to: address, send: send)
  }

  /// Sends one control packet by UDP, alone or padded to the full size, to any address.
  func sendControl(
    _ commands: [(Command, UInt64)], padded: Bool, eliciting: Bool, to address: PeerAddress, now: Instant,
    send: (Span<UInt8>, PeerAddress) -> Void
  ) {
    guard protection != nil, !phases.isUsedUp else { return }
    startDatagram(now: now)
    let start = scratch.count
    for (index, (command, token)) in commands.enumerated() {
      let isLast = index == commands.count - 1
      PacketWriter.append(command, to: &scratch) { payload in
        payload.appendField(1, fixed64: token)
        guard padded, isLast else { return }
        // The padding field takes a tag byte and two length bytes besides its content.
        let padding = WireLimits.maximumDatagramBytes - WireLimits.datagramTagBytes - payload.count - 3
        payload.appendField(2, bytes: [UInt8](repeating: 0, count: padding))
      }
    }
    if eliciting { PacketWriter.wantReceipt(in: &scratch, packetAt: start) }
    var datagram = SentDatagram(eliciting: eliciting, sent: now)
    datagram.wanted = eliciting
    finishDatagram(datagram, to: address, send: send)
  }

  /// Echoes a ping by UDP.
  func sendPong(_ token: UInt64, to address: PeerAddress, now: Instant, send: (Span<UInt8>, PeerAddress) -> Void) {
    guard protection != nil, !phases.isUsedUp, allowance ?? .max >= Self.leastProbeBytes + 9 else { return }
    startDatagram(now: now)
    if received.hasNews, allowance == nil { appendReceipt(now: now) }
    PacketWriter.append(.ping, flags: .response, to: &scratch) { $0.appendField(1, fixed64: token) }
    finishDatagram(SentDatagram(eliciting: false, sent: now), to: address, send: send)
  }

  // MARK: - Building one datagram

  private var room: Int { datagramLimit - WireLimits.datagramTagBytes - scratch.count }

  private static let windowOfFullDatagrams = 8 * WireLimits.maximumDatagramBytes
  private static let leastProbeBytes =
    WireLimits.datagramHeaderBytes + WireLimits.headerBytes + WireLimits.datagramTagBytes

  /// To an address that is not proven a receipt goes only if what it may get surely suffices.
  private var mayCarryReceipt: Bool {
    guard let allowance else { return true }
    let overhead = WireLimits.datagramHeaderBytes + WireLimits.datagramTagBytes
    return received.receiptBytesAtMost + overhead <= allowance
  }

  private func startDatagram(now: Instant) {
    scratch.removeAll(keepingCapacity: true)
    sent.skipIfDue(now: now)
    if phases.isChangeDue {
      protection?.changeSealingKey()
      phases.sealingChanged(from: sent.nextNumber)
      counters.keyChanges += 1
    }
    DatagramHeader(
      connectionId: connectionId, packetNumber: sent.nextNumber, isOddPhase: phases.isOddSealing
    ).append(to: &scratch)
  }

  private func appendReceipt(now: Instant) {
    guard let datagrams = received.takeReceipt(now: now) else { return }
    phases.receiptLeft()
    let before = scratch.count
    PacketWriter.append(.receipt, to: &scratch, payload: Receipt(datagrams: datagrams).append)
    counters.receiptBytesSent += UInt64(scratch.count - before)
  }

  private func finishDatagram(
    _ datagram: SentDatagram, to address: PeerAddress, send: (Span<UInt8>, PeerAddress) -> Void
  ) {
    guard let protection, !phases.isUsedUp else { preconditionFailure("a datagram without a key") }
    var datagram = datagram
    datagram.number = sent.takeNumber()
    protection.seal(&scratch, packetNumber: datagram.number)
    phases.sealed()
    datagram.bytes = scratch.count
    sent.insert(datagram)
    counters.datagramsSent += 1
    lastDeparture = datagram.sent
    if let left = allowance, address == peer { allowance = left - scratch.count }
    let sealed = scratch
    send(sealed.span, address)
  }
}

extension SentDatagram {
  init(eliciting: Bool, sent: Instant) {
    self.init(number: 0, sent: sent, bytes: 0, eliciting: eliciting, wanted: false, messages: [])
  }
}
