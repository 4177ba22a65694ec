internal import SimpCore
internal import SimpRedis
internal import SimpSupport

/// Messages out of the inbox, to a device that does not have everything yet.
extension Switchboard {
  /// Messages in one read, and bytes of them.
  static let readMessages = 512
  static let readBytes = 1 << 20

  /// Goes on with whatever is next: reading, telling the store what the device has, or becoming live.
  func catchUp(_ entry: SessionEntry) {
    guard entry.session.isActive, entry.inbox.phase != .live || !entry.inbox.confirmed.isEmpty else { return }
    confirm(entry)
    switch entry.inbox.phase {
    case .catchingUp:
      takeWaiting(of: entry, now: ports.now)
      read(entry)
    case .levelling: level(entry)
    case .entering, .live: break
    }
  }

  /// Its time has come to try again.
  func wake(_ entry: SessionEntry) {
    entry.inbox.wake = .never
    guard !entry.inbox.isSuperseded else {
      // Nothing that it says counts in the store any more: its next login does.
      let text = "a later login of this user began, and did not end"
      return entry.session.end(Refusal(.timedOut, text, retryAfterMilliseconds: 1), now: ports.now)
    }
    catchUp(entry)
  }

  func tryAgain(_ entry: SessionEntry) {
    entry.inbox.wake = min(entry.inbox.wake, ports.now + WireTimes.retryNotOnline)
    ports.needsFlush(entry)
  }

  // MARK: - Reading

  private func read(_ entry: SessionEntry) {
    let session = entry.session
    // What is under way and unanswered would be missing in the answer.
    guard !entry.inbox.isReading, entry.inbox.wake == .never else { return }
    // BOUND: entries that wait for the store, besides those that the session has room for.
    guard entry.inbox.confirmed.count + entry.inbox.confirming < WireLimits.windowMessages else { return }
    let room = session.roomMessages - session.pendingMessages
    // Few at a time would cost a question each; when nothing is pending there is room for one at least.
    guard session.pendingMessages == 0 || (room * 4 >= session.roomMessages && heldBytes < heldShare) else { return }
    let bytes = max(1, min(Self.readBytes, min(session.roomBytes - session.pendingBytes, heldShare - heldBytes)))
    entry.inbox.isReading = true
    let (id, rewinds) = (session.id, entry.inbox.rewinds)
    ports.readInbox(
      of: session.user, after: entry.inbox.cursor, count: max(1, min(room, Self.readMessages)), bytes: bytes
    ) { [weak self] entries in
      guard let self, let entry = self.entries[id], entry.session.isActive else { return }
      entry.inbox.isReading = false
      guard rewinds == entry.inbox.rewinds else { return self.catchUp(entry) }
      guard let entries else { return self.tryAgain(entry) }
      self.take(entries, for: entry)
    }
  }

  private func take(_ messages: [InboxEntry], for entry: SessionEntry) {
    for message in messages {
      // Something is pending then: what becomes of it leads on from here.
      guard handOver(message, to: entry) else { return confirm(entry) }
      entry.inbox.cursor = message.id
    }
    guard messages.isEmpty else { return catchUp(entry) }
    // That was all, unless something is on its way there: then its answer goes on from here.
    guard entry.inbox.phase == .catchingUp, entry.inbox.appends == 0 else { return }
    entry.inbox.phase = .levelling
    level(entry)
  }

  /// - Returns: false when there is no room now.
  private func handOver(_ message: InboxEntry, to entry: SessionEntry) -> Bool {
    let session = entry.session
    if let handle = entry.handle(of: message.from, device: message.device) {
      let key = MessageKey(conversation: handle, order: message.order)
      if session.holds(key) {
        entry.inbox.handedOver[key] = message.id
        return true
      }
    }
    guard entry.isWithinWindow(from: message.from, device: message.device, order: message.order),
      session.pendingMessages == 0 || session.hasRoom(bytes: message.payload.count + WireLimits.headerBytes)
    else { return false }
    let key = entry.add(from: message.from, device: message.device, order: message.order, origin: nil)
    let lowest = entry.senders[key.conversation]?.pending.first ?? message.order
    let encoded = EncodedMessage(stored: message.payload, floor: floor(of: message, atMost: lowest))
    entry.inbox.handedOver[key] = message.id
    entry.inbox.handedOverCount += 1
    heldBytes += encoded.bytes.count
    session.deliver(key, encoded)
    counters.caughtUp.add()
    ports.needsFlush(entry)
    return true
  }

  /// Where the recipient may begin: where the sender said when it sent the message, but not above what it does not have.
  private func floor(of message: InboxEntry, atMost lowest: UInt64) -> UInt64 {
    guard let fields = try? MessageFields(reading: message.payload.span), fields.floor > 0 else { return lowest }
    return min(fields.floor, lowest)
  }

  // MARK: - What the device has

  /// What the inbox has of a message that a device had in hand.
  struct Kept {
    /// It is there, so that what is given back is not lost.
    var isThere = false
    /// It came from there.
    var isHandedOver = false
  }

  /// The device has a message, or gives it back.
  func finishedFromInbox(
    _ key: MessageKey, from sender: SessionEntry.SenderDevice, of entry: SessionEntry, isDelivered: Bool
  ) -> Kept {
    var kept = Kept()
    if !entry.inbox.handedOver.isEmpty, let id = entry.inbox.handedOver.removeValue(forKey: key) {
      kept = Kept(isThere: true, isHandedOver: true)
      if isDelivered { entry.inbox.confirmed.append(ConfirmedEntry(id: id, sender: sender, order: key.order)) }
    }
    let name = InboxProgress.MessageName(from: sender.user, device: sender.device, order: key.order)
    if let copy = entry.inbox.copy(name) {
      entry.inbox.endCopy(name, isDelivered: isDelivered)
      if case .stored(let id) = copy, !kept.isThere {
        kept.isThere = true
        if isDelivered { entry.inbox.confirmed.append(ConfirmedEntry(id: id, sender: sender, order: key.order)) }
      }
      kept.isHandedOver = false
    }
    if kept.isThere, !isDelivered {
      // It stays in the inbox, and is read again before anything behind it: the floor of that could pass it.
      entry.inbox.rewind()
      entry.inbox.phase = .catchingUp
      tryAgain(entry)
    }
    return kept
  }

  private func confirm(_ entry: SessionEntry) {
    // One question at a time, so that those that come meanwhile go together.
    guard entry.inbox.confirming == 0, !entry.inbox.confirmed.isEmpty, entry.inbox.wake == .never else { return }
    let confirmed = Array(entry.inbox.confirmed.prefix(InboxDirectory.maximumBatch))
    entry.inbox.confirmed.removeFirst(confirmed.count)
    entry.inbox.confirming = confirmed.count
    let (id, user) = (entry.session.id, entry.session.user)
    let marks = ConfirmedEntry.marks(of: confirmed, state: .delivered, recipient: user)
    ports.confirmInbox(of: user, entries: confirmed.map(\.id), marks: marks) { [weak self] isDone in
      if isDone { self?.marked(marks) }
      guard let self, let entry = self.entries[id], entry.session.isActive else { return }
      entry.inbox.confirming = 0
      if isDone {
        self.catchUp(entry)
      } else {
        entry.inbox.confirmed = confirmed + entry.inbox.confirmed
        self.tryAgain(entry)
      }
    }
  }

  /// The session is over: the store hears at once what the device had by then, else the next would get it again.
  func confirmAll(_ entry: SessionEntry) {
    while !entry.inbox.confirmed.isEmpty {
      let confirmed = Array(entry.inbox.confirmed.prefix(InboxDirectory.maximumBatch))
      entry.inbox.confirmed.removeFirst(confirmed.count)
      confirmNow(confirmed, of: entry.session.user)
    }
  }

  /// There is no session that could say it again.
  func confirmNow(_ confirmed: [ConfirmedEntry], of user: String) {
    let marks = ConfirmedEntry.marks(of: confirmed, state: .delivered, recipient: user)
    ports.confirmInbox(of: user, entries: confirmed.map(\.id), marks: marks) { [weak self] isDone in
      if isDone { self?.marked(marks) }
    }
  }

  /// Once the store knows that the device has everything, the endpoint is written again; its answer says whether more
  /// came.
  private func level(_ entry: SessionEntry) {
    guard entry.inbox.isClear, !entry.inbox.isAsked else { return }
    entry.inbox.isAsked = true
    ports.writeEndpoint(endpoint(of: entry))
  }
}
