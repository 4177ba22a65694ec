internal import SimpCore
internal import SimpRedis
internal import SimpSupport

/// Messages for who is away, or has no room: into the inbox.
extension Switchboard {
  /// Puts a message into its recipient's inbox. Its sender hears STORED, or LATER, when the store has answered.
  ///
  /// - Parameters:
  ///   - target: the recipient's session, of this reactor; nil: nobody knows of one.
  ///   - knownDead: the epoch of a session that is known to be over; 0 for none.
  func store(_ relay: Relay, at target: SessionEntry?, knownDead: UInt64 = 0) -> MessageVerdict {
    switch ports.inboxState {
    case .ready: break
    case .away: return .later(.unavailable, retryAfter: WireTimes.retryNotOnline)
    // As if there were no inbox.
    case .off where target == nil: return .later(.notOnline, retryAfter: WireTimes.retryNotOnline)
    case .off: return .later(.noRoom, retryAfter: WireTimes.retryNotOnline)
    }
    let size = relay.message.bytes.count
    // BOUND: what waits for the store's answer, besides what is held for sessions.
    guard appendingBytes == 0 || appendingBytes + size <= heldShare / 4 else {
      counters.heldFull.add()
      return .later(.noRoom, retryAfter: WireTimes.retryNotOnline)
    }
    appendingBytes += size
    if let target {
      // Whatever comes from now on goes behind it.
      if target.inbox.phase == .live { counters.spills.add() }
      leaveLive(target)
      target.inbox.appends += 1
    }
    log.debug(
      "message for the inbox",
      ["from": relay.from, "id": relay.messageId, "to": relay.to, "order": relay.order, "bytes": size])
    let entering = InboxOrder.Entering(
      relay: relay, session: target?.session.id, knownDead: knownDead, end: ports.now + InboxOrder.patience)
    let going = inboxOrder.enter(entering) { target?.holdsAll($0, from: relay.from, device: relay.device) ?? false }
    for message in going { append(message) }
    return .held
  }

  /// From here on the session gets what is in the inbox alone.
  ///
  /// What it has in hand and has not confirmed goes there as well, before anything else: should the session end, it
  /// would be offered again by its senders, and stand behind what came after it.
  private func leaveLive(_ entry: SessionEntry) {
    guard entry.inbox.phase == .live else { return }
    entry.inbox.phase = .catchingUp
    guard ports.inboxState == .ready else { return }
    let session = entry.session
    for (key, message) in session.pending() {
      guard let record = entry.senders[key.conversation], let origin = record.origin,
        let fields = try? MessageFields(reading: message.payload.span)
      else { continue }
      let relay = Relay(
        to: session.user, from: record.sender.user, device: record.sender.device, order: key.order,
        floor: min(fields.floor, key.order), messageId: fields.messageId, message: message, origin: origin)
      appendingBytes += message.bytes.count
      entry.inbox.appends += 1
      entry.inbox.beginCopy(of: relay)
      let entering = InboxOrder.Entering(
        relay: relay, session: session.id, knownDead: 0, end: ports.now, isCopy: true)
      for message in inboxOrder.enter(entering, isPending: { _ in false }) { append(message) }
    }
  }

  private func append(_ entering: InboxOrder.Entering) {
    let relay = entering.relay
    let message = InboxMessage(
      from: relay.from, device: relay.device, order: relay.order, floor: relay.floor,
      payload: Array(relay.message.payload),
      expires: ports.wallClockMilliseconds + UInt64(limits.inboxLifetime.nanoseconds / 1_000_000),
      follows: entering.follows)
    let target = entering.session.flatMap { entries[$0] }
    let rate = entries[relay.origin.session]?.rate
    let refusesStrangers = target == nil && rate.map { !$0.reachesStrangers(now: ports.now) } ?? false
    ports.append(
      message, to: relay.to, knownDead: entering.knownDead, spilling: target?.session.epoch ?? 0,
      refusesStrangers: refusesStrangers
    ) { [weak self] answer in
      guard let self else { return }
      if case .stored(_, toStranger: true) = answer {
        rate?.reachedStranger(bytes: message.payload.count + InboxLimits.entryOverheadBytes, now: self.ports.now)
      }
      self.answered(entering, isIn: answer?.isThere ?? false)
      if entering.isCopy, let target {
        self.copied(relay, of: target, answer)
      } else {
        self.appended(relay, at: entering.session, knownDead: entering.knownDead, answer)
      }
      if let target, target.session.isActive { self.catchUp(target) }
    }
  }

  /// The message is on its way no more.
  private func answered(_ entering: InboxOrder.Entering, isIn: Bool) {
    inboxOrder.answered(entering.relay, isIn: isIn)
    leaves(entering)
  }

  private func leaves(_ entering: InboxOrder.Entering) {
    appendingBytes -= entering.relay.message.bytes.count
    if let target = entering.session.flatMap({ entries[$0] }) { target.inbox.appends -= 1 }
  }

  private func copied(_ relay: Relay, of entry: SessionEntry, _ answer: InboxAnswer?) {
    var id: InboxEntry.ID?
    if case .stored(let stored, _) = answer { id = stored }
    guard entry.inbox.copied(relay, as: id), let id else { return }
    if entry.session.isActive {
      entry.inbox.confirmed.append(relay.confirmed(id))
    } else {
      // Else the next session would be handed it.
      confirmNow([relay.confirmed(id)], of: entry.session.user)
    }
  }

  /// Those that waited in vain for what they overtook go back to their senders.
  func tick(now: Instant) {
    for entering in inboxOrder.expire(now: now) {
      leaves(entering)
      let target = entering.session.flatMap { entries[$0] }
      let code: ErrorCode = target == nil ? .notOnline : .noRoom
      report(entering.relay, .later, code: code, retryAfter: WireTimes.retryNoRoom, now: now)
      if let target { catchUp(target) }
    }
  }

  private func appended(_ relay: Relay, at id: UInt64?, knownDead: UInt64, _ answer: InboxAnswer?) {
    let now = ports.now
    switch answer {
    case .stored, .duplicate:
      counters.stored.add()
      report(relay, .stored, code: .unspecified, now: now)
      // A session that was taken for dead, and is not, has to hear of it.
      if knownDead > 0 { tellAll(.stored(user: relay.to), now: now) }
    case .full(let limit):
      counters.inboxFull.add()
      log.debug("inbox full", ["user": relay.to, "from": relay.from, "limit": "\(limit)"])
      report(relay, .later, code: .noRoom, retryAfter: WireTimes.retryNotOnline, now: now)
    case .live(let node, let epoch):
      // Of a session here: a newer one exists, which is told of soon.
      guard id == nil else {
        report(relay, .later, code: .notOnline, retryAfter: WireTimes.retryNoRoom, now: now)
        break
      }
      findLive(relay, node: node, epoch: epoch, knownDead: knownDead, now: now)
    case .gap:
      report(relay, .later, code: .noRoom, retryAfter: WireTimes.retryNotOnline, now: now)
    case nil:
      report(relay, .later, code: .unavailable, retryAfter: WireTimes.retryNotOnline, now: now)
    }
  }

  /// The store says that the user is live, and this reactor knows of no session.
  private func findLive(_ relay: Relay, node other: String, epoch: UInt64, knownDead: UInt64, now: Instant) {
    guard epoch > knownDead else {
      return report(relay, .later, code: .unavailable, retryAfter: WireTimes.retryNotOnline, now: now)
    }
    guard other != node else {
      // Behind what the other reactors have told: if it is there, it is known then.
      return ports.post(.again(relay, knownDead: epoch), to: reactor)
    }
    ports.isAlive(node: other) { [weak self] isAlive in
      guard let self else { return }
      if isAlive == false { return self.again(relay, knownDead: epoch, now: self.ports.now) }
      let code: ErrorCode = isAlive == nil ? .unavailable : .notOnline
      self.report(relay, .later, code: code, retryAfter: WireTimes.retryNotOnline, now: self.ports.now)
    }
  }

  /// Looks once more where a message goes whose recipient the store took for live.
  func again(_ relay: Relay, knownDead: UInt64, now: Instant) {
    if let location = location(of: relay.to) {
      var relay = relay
      relay.location = location
      if location.address.reactor == reactor { return take(relay, now: now) }
      return ports.post(.relay(relay), to: location.address.reactor)
    }
    conclude(relay, store(relay, at: nil, knownDead: knownDead), now: now)
  }

  // MARK: - Live or not

  /// An endpoint was written.
  func endpointWritten(_ record: EndpointRecord, state: EndpointState, now: Instant) {
    guard let entry = entry(of: record) else { return }
    entry.inbox.isAsked = false
    switch state {
    case .superseded:
      // A newer session ends this one, unless it was over before it began.
      entry.inbox.isSuperseded = true
      tryAgain(entry)
    case .live:
      guard entry.inbox.appends == 0, !entry.inbox.isDoubtful else {
        entry.inbox.isDoubtful = false
        beginCatchingUp(entry)
        break
      }
      becomeLive(entry, now: now)
    case .catchingUp:
      entry.inbox.isDoubtful = false
      // Whatever is there, it is nothing that this session has in its hands.
      if entry.inbox.isClear { entry.inbox.rewind() }
      beginCatchingUp(entry)
    }
  }

  /// The store is there and does not take an endpoint. It is asked again, for as long as the session is there.
  func endpointRefused(_ record: EndpointRecord, now: Instant) {
    guard let entry = entry(of: record), entry.inbox.phase != .live else { return }
    switch (ports.inboxState, entry.inbox.phase) {
    // As if there were no inbox.
    case (.off, _): becomeLive(entry, now: now)
    // What is there can be read all the same; what comes meanwhile goes behind it, if the store takes that.
    case (.ready, .entering): beginCatchingUp(entry)
    default: giveBackWaiting(of: entry, now: now)
    }
  }

  private func entry(of record: EndpointRecord) -> SessionEntry? {
    guard let location = location(of: record.user), location.address.reactor == reactor,
      location.epoch == record.epoch, let entry = entries[location.address.session], entry.session.isActive
    else { return nil }
    return entry
  }

  private func becomeLive(_ entry: SessionEntry, now: Instant) {
    guard entry.inbox.phase != .live else { return }
    if entry.inbox.handedOverCount > 0 {
      log.info("caught up", ["user": entry.session.user, "messages": entry.inbox.handedOverCount])
      entry.inbox.handedOverCount = 0
    }
    entry.inbox.phase = .live
    entry.inbox.cursor = nil
    takeWaiting(of: entry, now: now)
  }

  func beginCatchingUp(_ entry: SessionEntry) {
    leaveLive(entry)
    entry.inbox.phase = .catchingUp
    catchUp(entry)
  }

  func takeWaiting(of entry: SessionEntry, now: Instant) {
    heldBytes -= entry.inbox.waitingBytes
    for relay in entry.inbox.takeWaiting() { take(relay, now: now) }
  }

  /// Something was added to the user's inbox past his endpoint.
  func noteStored(user: String) {
    guard let location = location(of: user), location.address.reactor == reactor,
      let entry = entries[location.address.session], entry.session.isActive
    else { return }
    entry.inbox.isDoubtful = true
    leaveLive(entry)
    catchUp(entry)
  }

  /// The store is away: what waits for its word goes back to its senders.
  func storeWentDown(now: Instant) {
    for entry in entries.values { giveBackWaiting(of: entry, now: now) }
  }

  private func giveBackWaiting(of entry: SessionEntry, now: Instant) {
    heldBytes -= entry.inbox.waitingBytes
    for relay in entry.inbox.takeWaiting() {
      report(relay, .later, code: .unavailable, retryAfter: WireTimes.retryNotOnline, now: now)
    }
  }
}
