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
    guard let location = location(of: recipient) else {
      return .later(.notOnline, retryAfter: WireTimes.retryNotOnline)
    }
    let session = sender.session
    let origin = SessionAddress(reactor: reactor, session: session.id)
    if location.address.reactor == reactor, let target = entries[location.address.session],
      holds(fields.order, from: session.user, device: session.deviceNumber, origin: origin, at: target)
    {
      counters.copiesDropped.add()
      return .held
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
      messageId: fields.messageId,
      message: EncodedMessage(relaying: payload, from: session.user, serverTime: ports.wallClockMilliseconds),
      origin: origin)
    guard location.address.reactor == reactor else {
      sender.unfinished.insert(bytes: relay.message.bytes.count)
      ports.post(.relay(relay), to: location.address.reactor)
      return .held
    }
    let verdict = place(relay)
    if verdict == .held { sender.unfinished.insert(bytes: relay.message.bytes.count) }
    return verdict
  }

  /// A message from another reactor: what cannot be held is reported there.
  func receive(_ relay: Relay, now: Instant) {
    if let target = entries[relay.location.address.session],
      holds(relay.order, from: relay.from, device: relay.device, origin: relay.origin, at: target)
    {
      counters.copiesDropped.add()
      ports.post(.copyDropped(origin: relay.origin, bytes: relay.message.bytes.count), to: relay.origin.reactor)
      return
    }
    switch place(relay) {
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
    guard let handle = target.handle(of: user, device: device) else { return false }
    target.setOrigin(origin, handle: handle)
    return target.session.holds(MessageKey(conversation: handle, order: order))
  }

  private func place(_ relay: Relay) -> MessageVerdict {
    guard let target = entries[relay.location.address.session], target.session.isActive,
      target.session.epoch == relay.location.epoch
    else { return .later(.notOnline, retryAfter: WireTimes.retryNoRoom) }
    let fillsGap = target.isBelowPending(from: relay.from, device: relay.device, order: relay.order)
    guard target.session.hasRoom(bytes: relay.message.bytes.count, fillsGap: fillsGap) else {
      counters.pendingFull.add()
      return .later(.noRoom, retryAfter: WireTimes.retryNoRoom)
    }
    guard target.isWithinWindow(from: relay.from, device: relay.device, order: relay.order) else {
      return .later(.noRoom, retryAfter: WireTimes.retryNoRoom)
    }
    // BOUND: all messages held by this reactor. What fills a gap passes: without it others cannot leave, and its own
    // session bounds it.
    guard fillsGap || heldBytes + relay.message.bytes.count <= heldShare else {
      counters.heldFull.add()
      return .later(.noRoom, retryAfter: WireTimes.retryNotOnline)
    }
    heldBytes += relay.message.bytes.count
    let key = target.add(from: relay.from, device: relay.device, order: relay.order, origin: relay.origin)
    target.session.deliver(key, relay.message)
    counters.relayed.add()
    log.debug(
      "message relayed",
      [
        "from": relay.from, "id": relay.messageId, "to": relay.to, "order": relay.order,
        "bytes": relay.message.bytes.count,
      ])
    ports.needsFlush(target)
    return .held
  }

  private func report(
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
      else { return }
      for order in record.pending(in: range) {
        let key = MessageKey(conversation: handle, order: order)
        guard session.holds(key) else { continue }
        let bytes = session.finish(key)
        heldBytes -= bytes
        entry.remove(key)
        if isDelivered { counters.delivered.add() } else { counters.later.add() }
        var report = Report(
          origin: record.origin, recipient: session.user, order: key.order, bytes: bytes, state: outcome.state)
        if !isDelivered {
          report.code = .noRoom
          report.retryAfter = WireTimes.retryNotOnline
        }
        send(report, now: now)
      }
    }
  }

  /// A session ended with messages pending: their senders keep them and offer them again.
  func returnPending(of entry: SessionEntry, now: Instant) {
    let recipient = entry.session.user
    let isReplaced = location(of: recipient) != nil
    let retryAfter = isReplaced ? WireTimes.retryNoRoom : WireTimes.retryNotOnline
    for (key, bytes) in entry.session.pending() {
      guard let record = entry.senders[key.conversation] else { continue }
      send(
        Report(
          origin: record.origin, recipient: recipient, order: key.order, bytes: bytes, state: .later,
          code: .notOnline, retryAfter: retryAfter), now: now)
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
    entry.unfinished.remove(bytes: report.bytes)
    if report.state == .later { entry.deferrals.insert(order: report.order, to: report.recipient) }
    if report.state == .delivered { entry.finished.insert(order: report.order, to: report.recipient) }
    entry.session.report(
      report.state, to: report.recipient, order: report.order, code: report.code, retryAfter: report.retryAfter,
      now: now)
    ports.needsFlush(entry)
  }
}
