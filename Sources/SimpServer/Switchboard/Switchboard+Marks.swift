internal import SimpCore
internal import SimpRedis
internal import SimpSupport

/// What became of messages behind STORED, for the devices that sent them.
///
/// A mark is in the store before anything is told of it, and until the sender has said it back. The sender's session is
/// told at once if it is here, else at its next login; twice is no harm.
extension Switchboard {
  /// A session is here that takes them. First of all: a mark that the read does not find any more is told to it.
  func beginMarks(of entry: SessionEntry) {
    guard entry.session.takesKept else { return }
    takers[sender(entry)] = entry.session.id
    readMarks(of: entry)
  }

  func endMarks(of entry: SessionEntry) {
    guard entry.session.takesKept else { return }
    if takers[sender(entry)] == entry.session.id { takers[sender(entry)] = nil }
  }

  /// The store is back.
  func readDueMarks() {
    for id in takers.values {
      if let entry = entries[id], entry.marks.isDue { readMarks(of: entry) }
    }
  }

  private func sender(_ entry: SessionEntry) -> SessionEntry.SenderDevice {
    SessionEntry.SenderDevice(user: entry.session.user, device: entry.session.deviceNumber)
  }

  private func readMarks(of entry: SessionEntry) {
    guard !entry.marks.isReading, entry.session.isActive else { return }
    entry.marks.isReading = true
    entry.marks.isDue = false
    let id = entry.session.id
    ports.readMarks(of: sender(entry)) { [weak self] sets in
      guard let self, let entry = self.entries[id], entry.session.isActive else { return }
      entry.marks.isReading = false
      guard let sets else {
        entry.marks.isDue = true
        return
      }
      // BOUND: ranges told at once.
      var room = MarkProgress.maximumTold
      let sender = self.sender(entry)
      for set in sets where room > 0 {
        let orders = Array(set.orders.prefix(room))
        room -= orders.count
        self.tell(Mark(sender: sender, recipient: set.recipient, state: set.state, orders: orders))
      }
      entry.marks.hasMore = sets.reduce(0) { $0 + $1.orders.count } > MarkProgress.maximumTold
    }
  }

  /// The store has these marks; their senders may be here, on whatever reactor.
  func marked(_ marks: [Mark]) {
    for mark in marks { tellAll(.marked(mark), now: ports.now) }
  }

  /// Tells the sender's session, if it is on this reactor.
  func tell(_ mark: Mark) {
    guard let entry = takers[mark.sender].flatMap({ entries[$0] }), entry.session.isActive else { return }
    counters.marksTold.add(mark.count)
    let now = ports.now
    for orders in mark.orders {
      entry.session.report(kept: mark.state.messageState, to: mark.recipient, orders: orders, now: now)
    }
    ports.needsFlush(entry)
  }

  /// The client says back what it was told: nobody has to keep it any more.
  func session(_ session: ServerSession, heard outcome: Outcome, now: Instant) {
    guard let entry = entries[session.id], let state = MarkState(outcome.state), !outcome.user.isEmpty else { return }
    // No order of ours is beyond: the store could not tell such apart.
    let orders = outcome.orders.filter { $0.upperBound < 1 << 40 }
    for start in stride(from: 0, to: orders.count, by: MarkDirectory.maximumBatch) {
      // BOUND: what waits for the store's answer.
      guard entry.marks.heard.count < MarkProgress.maximumHeard else { return }
      let part = Array(orders[start...].prefix(MarkDirectory.maximumBatch))
      entry.marks.heard.append(
        Mark(sender: sender(entry), recipient: outcome.user, state: state, orders: part))
    }
    confirmMarks(of: entry)
  }

  /// One question at a time, so that those that come meanwhile go together.
  private func confirmMarks(of entry: SessionEntry) {
    guard !entry.marks.isConfirming, !entry.marks.heard.isEmpty else { return }
    let heard = entry.marks.heard
    entry.marks.heard = []
    entry.marks.isConfirming = true
    let id = entry.session.id
    ports.confirmMarks(heard) { [weak self] isDone in
      guard let self, let entry = self.entries[id], entry.session.isActive else { return }
      entry.marks.isConfirming = false
      // Else they are told again with the next login.
      if isDone, entry.marks.hasMore, entry.marks.heard.isEmpty { self.readMarks(of: entry) }
      self.confirmMarks(of: entry)
    }
  }
}
