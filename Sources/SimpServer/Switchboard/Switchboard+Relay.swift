internal import SimpCore
internal import SimpSupport

extension Switchboard {
  func session(
    _ session: ServerSession, received fields: MessageFields, payload: Span<UInt8>, now: Instant
  ) -> MessageVerdict {
    guard let entry = entries[session.id] else { return .later(.unavailable, retryAfter: WireTimes.retryNotOnline) }
    let recipient = fields.toUser(in: payload)
    let verdict = route(fields, payload: payload, to: recipient, sender: entry, now: now)
    switch verdict {
    case .held, .finished:
      entry.deferrals.remove(order: fields.order, to: recipient)
    case .later(let code, _):
      entry.deferrals.insert(order: fields.order, to: recipient)
      counters.later.add()
      log.debug(
        "message later",
        ["from": session.user, "id": fields.messageId, "to": recipient, "order": fields.order, "code": code.rawValue])
    case .rejected:
      break
    }
    return verdict
  }

  private func route(
    _ fields: MessageFields, payload: Span<UInt8>, to recipient: String, sender: SessionEntry, now: Instant
  ) -> MessageVerdict {
    if let wait = sender.rate?.take(bytes: payload.count, now: now) {
      counters.rateLimited.add()
      return .later(.rateLimited, retryAfter: max(wait, WireTimes.retryNoRoom))
    }
    if let known = sender.finished.knows(order: fields.order, floor: fields.floor, to: recipient) {
      counters.copiesDropped.add()
      return .finished(known == .delivered ? .delivered : nil)
    }
    let session = sender.session
    let origin = SessionAddress(reactor: reactor, session: session.id)
    let location = location(of: recipient)
    if let location {
      if location.address.reactor == reactor, let target = entries[location.address.session],
        holds(fields.order, from: session.user, device: session.deviceNumber, origin: origin, at: target)
      {
        counters.copiesDropped.add()
        return .held
      }
    } else if ports.inboxState == .off {
      return .later(.notOnline, retryAfter: WireTimes.retryNotOnline)
    }
    if sender.deferrals.blocks(order: fields.order, to: recipient, floor: fields.floor) {
      return .later(.noRoom, retryAfter: WireTimes.retryNoRoom)
    }
    guard sender.unfinished.hasRoom(bytes: payload.count, limits: limits.session) else {
      counters.windowFull.add()
      return .later(.noRoom, retryAfter: WireTimes.retryNoRoom)
    }
    let relay = Relay(
      to: recipient, location: location, from: session.user, device: session.deviceNumber, order: fields.order,
      floor: fields.floor, messageId: fields.messageId,
      message: EncodedMessage(relaying: payload, from: session.user, serverTime: ports.wallClockMilliseconds),
      origin: origin)
    if let location, location.address.reactor != reactor {
      sender.unfinished.insert(bytes: relay.message.bytes.count)
      ports.post(.relay(relay), to: location.address.reactor)
      return .held
    }
    let verdict = location == nil ? store(relay, at: nil) : place(relay)
    if verdict == .held { sender.unfinished.insert(bytes: relay.message.bytes.count) }
    return verdict
  }

  /// A message that counts at its sender already: from another reactor, or one that waited. What cannot be held is
  /// reported there.
  func take(_ relay: Relay, now: Instant) {
    if let target = relay.location.flatMap({ entries[$0.address.session] }),
      holds(relay.order, from: relay.from, device: relay.device, origin: relay.origin, at: target)
    {
      counters.copiesDropped.add()
      let dropped = Note.copyDropped(origin: relay.origin, bytes: relay.message.bytes.count)
      if relay.origin.reactor == reactor {
        receive(dropped, now: now)
      } else {
        ports.post(dropped, to: relay.origin.reactor)
      }
      return
    }
    conclude(relay, place(relay), now: now)
  }

  /// Reports what became of a message that counts at its sender already.
  func conclude(_ relay: Relay, _ verdict: MessageVerdict, now: Instant) {
    switch verdict {
    case .held:
      break
    case .later(let code, let retryAfter):
      report(relay, .later, code: code, retryAfter: retryAfter, now: now)
    case .finished:
      preconditionFailure("only the reactor of the sender knows what is finished")
    case .rejected(let code):
      report(relay, .rejected, code: code, now: now)
    }
  }

  /// A copy of a pending message is dropped, as is one of a finished message.
  private func holds(
    _ order: UInt64, from user: String, device: UInt32, origin: SessionAddress, at target: SessionEntry
  ) -> Bool {
    let name = InboxProgress.MessageName(from: user, device: device, order: order)
    if target.inbox.isWaiting(name, origin: origin) { return true }
    guard let handle = target.handle(of: user, device: device) else { return false }
    target.setOrigin(origin, handle: handle)
    return target.session.holds(MessageKey(conversation: handle, order: order))
  }

  private func place(_ relay: Relay) -> MessageVerdict {
    guard let location = relay.location, let target = entries[location.address.session], target.session.isActive,
      target.session.epoch == location.epoch
    else { return .later(.notOnline, retryAfter: WireTimes.retryNoRoom) }
    switch target.inbox.phase {
    case .live: break
    case .catchingUp: return store(relay, at: target)
    case .entering, .levelling: return wait(relay, for: target)
    }
    let size = relay.message.bytes.count
    let fillsGap = target.isBelowPending(from: relay.from, device: relay.device, order: relay.order)
    guard target.session.hasRoom(bytes: size, fillsGap: fillsGap) else {
      counters.pendingFull.add()
      return spill(relay, from: target, retryAfter: WireTimes.retryNoRoom)
    }
    guard target.isWithinWindow(from: relay.from, device: relay.device, order: relay.order) else {
      return .later(.noRoom, retryAfter: WireTimes.retryNoRoom)
    }
    // BOUND: all messages held by this reactor. What fills a gap passes: without it others cannot leave, and its own
    // session bounds it.
    guard fillsGap || heldBytes + size <= heldShare else {
      counters.heldFull.add()
      return spill(relay, from: target, retryAfter: WireTimes.retryNotOnline)
    }
    heldBytes += relay.message.bytes.count
    let key = target.add(from: relay.from, device: relay.device, order: relay.order, origin: relay.origin)
    target.session.deliver(key, relay.message)
    counters.relayed.add()
    noteRoom(target)
    log.debug(
      "message relayed",
      [
        "from": relay.from, "id": relay.messageId, "to": relay.to, "order": relay.order,
        "bytes": relay.message.bytes.count,
      ])
    ports.needsFlush(target)
    return .held
  }

  /// There is no room for the message. If that goes on it goes into the inbox, and everything behind it; one that is full
  /// for a moment in a rush has room again before the store would have answered.
  private func spill(_ relay: Relay, from target: SessionEntry, retryAfter: Interval) -> MessageVerdict {
    let since = target.inbox.fullSince ?? ports.now
    target.inbox.fullSince = since
    guard ports.inboxState == .ready, since + InboxProgress.fullBeforeSpill <= ports.now else {
      return .later(.noRoom, retryAfter: retryAfter)
    }
    return store(relay, at: target)
  }

  /// Whether the recipient is live is decided in a moment: the message waits for that.
  private func wait(_ relay: Relay, for target: SessionEntry) -> MessageVerdict {
    guard ports.inboxState != .away else { return .later(.unavailable, retryAfter: WireTimes.retryNotOnline) }
    let size = relay.message.bytes.count
    guard target.inbox.waiting.count < target.session.roomMessages,
      target.inbox.waitingBytes + size <= target.session.roomBytes, heldBytes + size <= heldShare
    else {
      counters.pendingFull.add()
      // Those that wait go before it: it would wait for them in vain.
      if ports.inboxState == .ready { beginCatchingUp(target) }
      return store(relay, at: target)
    }
    heldBytes += size
    target.inbox.wait(relay)
    log.debug(
      "message waits",
      ["from": relay.from, "id": relay.messageId, "to": relay.to, "order": relay.order, "bytes": size])
    return .held
  }

  func report(
    _ relay: Relay, _ state: MessageState, code: ErrorCode, retryAfter: Interval = .zero, now: Instant
  ) {
    send(
      Report(
        origin: relay.origin, recipient: relay.to, order: relay.order, bytes: relay.message.bytes.count, state: state,
        code: code, retryAfter: retryAfter), now: now)
  }

  // MARK: - What became of messages

  /// A recipient says DELIVERED, or LATER of what it cannot keep: the senders hear it, and it is held no more.
  func session(_ session: ServerSession, reported outcome: Outcome, now: Instant) {
    guard let entry = entries[session.id], outcome.state == .delivered || outcome.state == .later else { return }
    let isDelivered = outcome.state == .delivered
    for range in outcome.orders {
      guard let handle = entry.handle(of: outcome.user, device: outcome.device),
        let record = entry.senders[handle]
      else { break }
      for order in record.pending(in: range) {
        let key = MessageKey(conversation: handle, order: order)
        guard session.holds(key) else { continue }
        let bytes = session.finish(key)
        heldBytes -= bytes
        entry.remove(key)
        let kept = finishedFromInbox(key, from: record.sender, of: entry, isDelivered: isDelivered)
        if isDelivered { counters.delivered.add() } else { counters.later.add() }
        guard let origin = record.origin else { continue }
        var report = Report(
          origin: origin, recipient: session.user, order: key.order, bytes: bytes, state: outcome.state,
          isCounted: !kept.isHandedOver)
        if kept.isThere, !isDelivered {
          // It is there still: nothing is to be offered again.
          report.state = .stored
        } else if !isDelivered {
          report.code = .noRoom
          report.retryAfter = WireTimes.retryNotOnline
        }
        send(report, now: now)
      }
    }
    noteRoom(entry)
    catchUp(entry)
  }

  private func noteRoom(_ entry: SessionEntry) {
    let session = entry.session
    guard entry.inbox.fullSince != nil, session.pendingMessages * 2 <= session.roomMessages,
      session.pendingBytes * 2 <= session.roomBytes
    else { return }
    entry.inbox.fullSince = nil
  }

  /// A session ended with messages pending: their senders keep them and offer them again.
  func returnPending(of entry: SessionEntry, now: Instant) {
    let recipient = entry.session.user
    let isReplaced = location(of: recipient) != nil
    // The inbox takes them; without one they wait for somebody to be there.
    let isShort = isReplaced || ports.inboxState == .ready
    let retryAfter = isShort ? WireTimes.retryNoRoom : WireTimes.retryNotOnline
    for (key, message) in entry.session.pending() {
      guard let record = entry.senders[key.conversation], let origin = record.origin else { continue }
      let name = InboxProgress.MessageName(from: record.sender.user, device: record.sender.device, order: key.order)
      let copy = entry.inbox.copy(name)
      let isHandedOver = entry.inbox.handedOver[key] != nil
      var report = Report(
        origin: origin, recipient: recipient, order: key.order, bytes: message.bytes.count, state: .stored,
        isCounted: copy != nil || !isHandedOver)
      if !isHandedOver, copy?.isStored != true {
        report.state = .later
        report.code = .notOnline
        report.retryAfter = retryAfter
      }
      send(report, now: now)
    }
    for relay in entry.inbox.takeWaiting() {
      report(relay, .later, code: .notOnline, retryAfter: retryAfter, now: now)
    }
  }

  private func send(_ report: Report, now: Instant) {
    if report.origin.reactor == reactor {
      deliver(report, now: now)
    } else {
      ports.post(.report(report), to: report.origin.reactor)
    }
  }

  /// Tells the sender, if it is still here; one that came back offers its messages again by itself.
  func deliver(_ report: Report, now: Instant) {
    guard let entry = entries[report.origin.session], entry.session.isActive else { return }
    if report.isCounted { entry.unfinished.remove(bytes: report.bytes) }
    if report.state == .later { entry.deferrals.insert(order: report.order, to: report.recipient) }
    if report.state == .delivered || report.state == .stored {
      entry.finished.insert(order: report.order, to: report.recipient, isStored: report.state == .stored)
    }
    entry.session.report(
      report.state, to: report.recipient, order: report.order, code: report.code, retryAfter: report.retryAfter,
      now: now)
    ports.needsFlush(entry)
  }
}
