internal import SimpCore
internal import SimpSupport

/// Who is here, and what goes to whom: the routing of one reactor, without I/O and clock.
///
/// Each reactor has one. They share what a user may send, and tell one another by notes who entered and left, so that a
/// lookup is always local; a stale answer costs a hop, never a message.
final class Switchboard {
  let reactor: UInt8
  let reactors: Int
  let node: String
  let udpPort: UInt32
  let keyLimits: KeyLimits
  unowned let ports: any SwitchboardPorts
  let log: Log
  let counters: ServerCounters
  let limits: ServerLimits

  /// Every session of this reactor, logged in or not.
  private(set) var entries: [UInt64: SessionEntry] = [:]
  private(set) var connections: [UInt64: SessionEntry] = [:]
  /// Live sessions of all reactors, by user.
  private var directory: [String: Location] = [:]
  private var nextSession: UInt64 = 0
  let rates: UserRates
  /// Bytes of messages held for the sessions of this reactor.
  var heldBytes = 0
  /// Bytes of messages that are on their way into an inbox.
  var appendingBytes = 0
  var inboxOrder = InboxOrder()
  var refusalLog = LogBudget()
  var revocations = Revocations()
  // BOUND: the sessions of this reactor.
  /// Sessions that are told of marks, by the device they are of; send-only ones as well.
  var takers: [SessionEntry.SenderDevice: UInt64] = [:]

  /// - Parameters:
  ///   - reactors: how many there are; this one is number `reactor`.
  ///   - udpPort: told to clients; 0: no UDP.
  ///   - rates: those of the whole server.
  init(
    reactor: UInt8, reactors: Int, node: String, udpPort: UInt32, keyLimits: KeyLimits = KeyLimits(),
    ports: any SwitchboardPorts, log: Log, counters: ServerCounters, limits: ServerLimits = ServerLimits(),
    rates: UserRates
  ) {
    self.reactor = reactor
    self.reactors = reactors
    self.node = node
    self.udpPort = udpPort
    self.keyLimits = keyLimits
    self.ports = ports
    self.log = log
    self.counters = counters
    self.limits = limits
    self.rates = rates
  }

  /// What this reactor may hold of all that the server may.
  var heldShare: Int { limits.heldBytes / reactors }

  /// A connection was accepted.
  func begin(now: Instant) -> SessionEntry {
    nextSession += 1
    // Unowned: the ports own this switchboard, and it the session.
    let session = ServerSession(
      id: nextSession, owner: self, limits: limits.session, keyLimits: keyLimits, now: now
    ) { [unowned ports] in
      ports.random()
    }
    let entry = SessionEntry(session: session)
    entries[session.id] = entry
    return entry
  }

  /// The session a datagram is for, by the clear connection id.
  func entry(connectionId: UInt64) -> SessionEntry? { connections[connectionId] }

  /// Brings the server's counters up to what the session counted.
  func count(_ entry: SessionEntry) {
    let news = entry.session.counters
    counters.add(news, since: entry.counted)
    entry.counted = news
  }

  func location(of user: String) -> Location? { directory[user] }

  /// Ends every session, for a server that stops.
  func endAll(_ refusal: Refusal, now: Instant) {
    for entry in Array(entries.values) { entry.session.end(refusal, now: now) }
  }

  /// The store lost what it held, or was away: every endpoint is written again.
  func rewriteEndpoints() {
    for entry in entries.values where entry.session.isActive && !entry.session.isSendOnly {
      ports.writeEndpoint(endpoint(of: entry))
    }
    readDueMarks()
  }

  func endpoint(of entry: SessionEntry) -> EndpointRecord {
    let session = entry.session
    return EndpointRecord(
      user: session.user, device: session.deviceNumber, epoch: session.epoch, connectionId: session.connectionId,
      address: session.path == .up ? session.provenAddress : nil, since: entry.since)
  }

  // MARK: - Who is where

  /// A session of this reactor is live from now on.
  func enter(_ entry: SessionEntry, connectionId: UInt64) {
    if connectionId != 0 { connections[connectionId] = entry }
    beginMarks(of: entry)
    guard !entry.session.isSendOnly else { return }
    let location = Location(
      address: SessionAddress(reactor: reactor, session: entry.session.id), epoch: entry.session.epoch)
    note(user: entry.session.user, at: location)
    // A newer login may have been told of before this one was answered.
    guard entry.session.isActive else { return }
    // First: who asks the store and hears that the user is live must find it told.
    tellOthers(.entered(user: entry.session.user, location))
    ports.writeEndpoint(endpoint(of: entry))
  }

  func leave(_ entry: SessionEntry) {
    let session = entry.session
    count(entry)
    entries[session.id] = nil
    heldBytes -= session.pendingBytes + entry.inbox.waitingBytes
    if let rate = entry.rate { rates.end(rate) }
    counters.add(session.counters)
    if session.connectionId != 0 { connections[session.connectionId] = nil }
    endMarks(of: entry)
    guard session.epoch != 0, !session.isSendOnly else { return }
    let location = Location(address: SessionAddress(reactor: reactor, session: session.id), epoch: session.epoch)
    if directory[session.user] == location { directory[session.user] = nil }
    ports.removeEndpoint(endpoint(of: entry))
    tellOthers(.left(user: session.user, location))
  }

  /// Takes in where a user is; of two sessions the one with the lower epoch ends.
  private func note(user: String, at location: Location) {
    guard let old = directory[user], old.address != location.address else {
      directory[user] = location
      return
    }
    let (stays, goes) = old.epoch < location.epoch ? (location, old) : (old, location)
    directory[user] = stays
    guard goes.address.reactor == reactor, let entry = entries[goes.address.session] else { return }
    log.info("session replaced", ["user": user, "session": entry.session.id])
    entry.session.end(Refusal(.replaced, "a newer login of this user took over"), now: ports.now)
  }

  func tellOthers(_ note: Note) {
    for other in 0..<reactors where other != Int(reactor) { ports.post(note, to: UInt8(other)) }
  }

  func tellAll(_ note: Note, now: Instant) {
    tellOthers(note)
    receive(note, now: now)
  }

  /// Takes a note of another reactor.
  func receive(_ note: Note, now: Instant) {
    switch note {
    case .relay(let relay): take(relay, now: now)
    case .report(let report): deliver(report, now: now)
    case .copyDropped(let origin, let bytes): entries[origin.session]?.unfinished.remove(bytes: bytes)
    case .entered(let user, let location): self.note(user: user, at: location)
    case .left(let user, let location):
      if directory[user] == location { directory[user] = nil }
    case .kicked(let kick): carryOut(kick, now: now)
    case .again(let relay, let knownDead): again(relay, knownDead: knownDead, now: now)
    case .stored(let user): noteStored(user: user)
    case .marked(let mark): tell(mark)
    }
  }
}
