internal import SimpCore
internal import SimpIO
internal import SimpRedis
internal import SimpSupport

/// One thread of the server: its loop, its UDP socket, its link to Redis, and the sessions of the connections that the
/// acceptor gave it. In a turn of the loop everything that arrived is taken in first; then each session that has something to
/// say is flushed once, and the datagrams leave in batches.
///
/// `@unchecked Sendable`: after `init` everything is touched on the loop's thread only; other threads call `perform`.
final class Reactor: @unchecked Sendable {
  let loop: EventLoop
  let number: UInt8
  private let shared: ServerShared
  private var board: Switchboard!
  private var store: EndpointStore!
  private var inbox: InboxStore!
  /// On one of the reactors.
  private var expiry: InboxExpiry?
  private var socket: DatagramSocket?
  private var streams: [UInt64: Stream] = [:]
  private var dirty: [SessionEntry] = []
  // BOUND: the sessions that were heard or flushed since the gauge's last tick, once each.
  private var toCount: [SessionEntry] = []
  private var deadlines = DeadlineHeap()
  private var timer: LoopTimer!
  private var notes: [[Note]]
  private var streamsClosing = 0
  /// Connections that have not logged in.
  private var waiting = WaitingRoom()
  private var gauge: LoadGauge
  private var gaugeTimer: LoopTimer!
  private var floods = FloodSources()
  private var isStopping = false
  private var onStopped: (() -> Void)?

  /// Bytes of messages handed to a TCP connection at a time; receipts and control are not held back by it.
  static let streamRoom = 128 << 10

  init(number: UInt8, shared: ServerShared) throws(IOError) {
    self.number = number
    self.shared = shared
    loop = try EventLoop()
    notes = Array(repeating: [], count: shared.reactors)
    gauge = LoadGauge(limit: shared.limits.loopLag)
  }

  /// Runs `body` on the reactor's thread.
  func perform(_ body: @escaping @Sendable (Reactor) -> Void) {
    loop.execute { body(self) }
  }

  // MARK: - Start

  /// Opens the port. On the loop.
  ///
  /// - Returns: the port in force.
  func open(udp: PeerAddress, redis: RedisAddress) throws(IOError) -> UInt16 {
    let isShared = shared.reactors > 1
    let socket = try DatagramSocket(loop: loop, bind: udp, reusePort: isShared)
    self.socket = socket
    // What cannot be ours by its first two bytes never reaches the loop: kind 1, and no bit beside the key phase.
    try socket.admitOnly(
      sizes: WireLimits.datagramHeaderBytes + WireLimits.datagramTagBytes...WireLimits.maximumDatagramBytes,
      mask: 0xFFFE, value: 0x0100)
    board = Switchboard(
      reactor: number, reactors: shared.reactors, node: shared.node, udpPort: UInt32(socket.localAddress.port),
      keyLimits: shared.keyLimits, ports: self, log: shared.log, counters: shared.counters, limits: shared.limits,
      rates: shared.rates)
    store = EndpointStore(loop: loop, address: redis, node: shared.node, log: shared.log) { [unowned self] in
      self.board.rewriteEndpoints()
      // All reactors know the same.
      if self.number == 0 { self.board.rewriteRevocations() }
    }
    inbox = InboxStore(
      loop: loop, link: store.link, limits: shared.limits.inbox, acceptsMemory: shared.limits.storedMeansMemory,
      log: shared.log, counters: shared.counters)
    store.onUp = { [inbox] in inbox?.storeIsUp() }
    store.onDown = { [unowned self] in
      self.inbox.storeIsDown()
      self.board.storeWentDown(now: self.loop.now)
    }
    store.onWritten = { [unowned self] in self.board.endpointWritten($0, state: $1, now: self.loop.now) }
    store.onRefused = { [unowned self] in self.board.endpointRefused($0, now: self.loop.now) }
    timer = loop.makeTimer { [unowned self] in self.dueSessions() }
    gaugeTimer = loop.makeTimer { [unowned self] in
      self.count()
      if self.floods.tick(now: self.loop.now) { self.refuseFloods() }
      self.gaugeTimer.arm(at: self.gauge.tick(now: self.loop.now))
    }
    gaugeTimer.arm(at: gauge.tick(now: loop.now))
    loop.addTurnEnd { [unowned self] in self.endTurn() }
    socket.onReceive { [unowned self] datagram, address in self.receive(&datagram, from: address) }
    return socket.localAddress.port
  }

  /// All reactors have opened: datagrams go to their owner, and Redis is asked.
  ///
  /// - Parameter onUp: called once on the loop, when Redis answers.
  func begin(onUp: @escaping () -> Void) throws(IOError) {
    if shared.reactors > 1, number == 0 { try socket?.steer(byAtOffset: 2, sockets: shared.reactors) }
    store.start { [store, formerNode = number == 0 ? shared.formerNode : nil] in
      if let formerNode { store?.directory.remove(node: formerNode) }
      onUp()
    }
    guard number == 0 else { return }
    store.directory.keepAlive()
    expiry = InboxExpiry(
      loop: loop, store: inbox, lifetime: shared.limits.inboxLifetime, log: shared.log,
      isHere: { [unowned self] in self.board.location(of: $0) != nil },
      onMarked: { [unowned self] in self.board.marked($0) })
  }

  // MARK: - Input

  /// Takes up a connection that the acceptor took.
  ///
  /// - Parameters:
  ///   - since: when it came; its time to log in began there.
  ///   - refusal: why its login will be refused.
  func adopt(_ detached: DetachedStream, since: Instant, refusal: Refusal?) {
    // A loop that cannot watch it has no descriptors or memory left, and has closed it.
    guard !isStopping, let stream = try? Stream(loop: loop, adopting: detached) else { return }
    let peer = stream.remoteAddress
    let entry = board.begin(now: since)
    let id = entry.session.id
    entry.turnedAway = refusal
    streams[id] = stream
    shared.log.debug("connection", ["session": id, "address": peer])
    // The handlers hold the session while they run: it may end, and leave the switchboard, in the middle of one.
    stream.onBytes = { [unowned self] bytes in
      entry.session.receive(stream: bytes, now: self.loop.now)
      self.needsFlush(entry)
    }
    stream.onClose = { [unowned self] _ in entry.session.connectionClosed(now: self.loop.now) }
    stream.onDrain = { [unowned self] in self.needsFlush(entry) }
    beginWaiting(entry, from: PeerSource(peer))
    needsFlush(entry)
  }

  private func beginWaiting(_ entry: SessionEntry, from source: PeerSource) {
    entry.isWaiting = true
    waiting.append(entry.session.id, from: source)
    // BOUND: connections without a login.
    guard waiting.count > shared.limits.waitingConnections,
      let id = waiting.displace(for: entry.session.id, from: source, now: loop.now),
      let displaced = board.entries[id]
    else { return }
    displaced.isWaiting = false
    shared.counters.connectionsDisplaced.add()
    displaced.session.end(
      Refusal(.overloaded, "too many connections wait for their login", retryAfterMilliseconds: 1000), now: loop.now)
  }

  private func receive(_ datagram: inout MutableSpan<UInt8>, from address: PeerAddress) {
    guard let header = DatagramHeader(reading: datagram.span),
      let entry = board.entry(connectionId: header.connectionId)
    else {
      shared.counters.strangers.add()
      return cameInVain(from: address)
    }
    if entry.session.receive(datagram: &datagram, from: address, now: loop.now) {
      needsFlush(entry)
    } else {
      cameInVain(from: address)
    }
    needsCount(entry)
  }

  private func cameInVain(from address: PeerAddress) {
    let source = PeerSource(address)
    guard floods.cameInVain(from: source), !isInside(source), floods.refuse(source, now: loop.now) else { return }
    shared.counters.floodsRefused.add()
    shared.log.debug("flood refused", ["address": address.host])
    refuseFloods()
  }

  /// Whether somebody from there is logged in, by what TCP or UDP shows.
  private func isInside(_ source: PeerSource) -> Bool {
    board.entries.values.contains { entry in
      guard entry.session.isActive else { return false }
      if let address = entry.session.provenAddress, PeerSource(address) == source { return true }
      return streams[entry.session.id].map { PeerSource($0.remoteAddress) == source } ?? false
    }
  }

  private func refuseFloods() {
    let sources = floods.sources
    // A kernel that does not take it costs what the flood costs.
    try? socket?.refuse(
      v4: sources.filter { $0.family == .v4 }.map { UInt32(truncatingIfNeeded: $0.bits) },
      v6: sources.filter { $0.family == .v6 }.map(\.bits))
  }

  private func needsCount(_ entry: SessionEntry) {
    guard !entry.isToCount else { return }
    entry.isToCount = true
    toCount.append(entry)
  }

  /// What the sessions counted since the last time goes into the server's counters, seldom: not on the way of a datagram.
  private func count() {
    for entry in toCount {
      entry.isToCount = false
      board.count(entry)
    }
    toCount.removeAll(keepingCapacity: true)
  }

  // MARK: - Output

  func needsFlush(_ entry: SessionEntry) {
    guard !entry.isDirty else { return }
    entry.isDirty = true
    dirty.append(entry)
  }

  private func dueSessions() {
    let now = loop.now
    board.tick(now: now)
    while let id = deadlines.popDue(now: now) {
      guard let entry = board.entries[id] else { continue }
      entry.scheduled = .never
      if entry.inbox.wake <= now { board.wake(entry) }
      needsFlush(entry)
    }
    armTimer()
  }

  private func endTurn() {
    // Flushing a session may make another dirty: a few rounds settle that, the rest comes with the next turn.
    var index = 0
    while index < dirty.count {
      let entry = dirty[index]
      entry.isDirty = false
      flush(entry)
      index += 1
    }
    dirty.removeAll(keepingCapacity: true)
    inbox.endTurn()
    postNotes()
    armTimer()
    if isStopping, streams.isEmpty, streamsClosing == 0, store.isSettled { finishStopping() }
  }

  private func flush(_ entry: SessionEntry) {
    let session = entry.session
    guard let stream = streams[session.id], let socket else { return }
    needsCount(entry)
    let now = loop.now
    let room = max(0, Self.streamRoom - stream.pendingBytes)
    session.flush(now: now, streamRoom: room) { datagram, address in socket.send(datagram, to: address) }
    write(session, to: stream)
    if entry.isWaiting, session.isLoggingIn { waiting.markSpoken(session.id) }
    if entry.isWaiting, session.isActive {
      entry.isWaiting = false
      waiting.remove(session.id)
      if floods.welcome(PeerSource(stream.remoteAddress)) { refuseFloods() }
    }
    // BOUND: what a client leaves unread.
    if stream.pendingBytes > shared.limits.unsentBytes, !session.isEnded {
      shared.counters.sessionsNotReading.add()
      session.end(
        Refusal(.notReading, "\(stream.pendingBytes) bytes wait to be read on TCP", retryAfterMilliseconds: 1000),
        now: now)
    }
    let deadline = min(session.deadline(now: now), entry.inbox.wake)
    if deadline < entry.scheduled {
      entry.scheduled = deadline
      deadlines.insert(session.id, at: deadline)
    }
  }

  private func write(_ session: ServerSession, to stream: Stream) {
    var bytes = session.takeStream()
    guard !bytes.isEmpty else { return }
    stream.write(bytes)
    // The login reply has keys in it.
    bytes.wipe()
  }

  private func armTimer() {
    let first = min(deadlines.first ?? .never, board.inboxOrder.deadline)
    guard first < .never else { return }
    if !timer.isArmed || first < timer.deadline { timer.arm(at: first) }
  }

  private func postNotes() {
    for index in notes.indices where !notes[index].isEmpty {
      let batch = notes[index]
      notes[index] = []
      shared.all[index].perform { reactor in reactor.receive(batch) }
    }
  }

  private func receive(_ batch: [Note]) {
    let now = loop.now
    for note in batch { board.receive(note, now: now) }
  }

  // MARK: - Stop

  /// Tells clients, lets them have what is queued, removes their endpoints, and calls back on the loop.
  func stop(_ refusal: Refusal, completion: @escaping @Sendable () -> Void) {
    onStopped = completion
    isStopping = true
    board.endAll(refusal, now: loop.now)
    let deadline = loop.makeTimer { [unowned self] in self.finishStopping() }
    deadline.arm(at: loop.now + .seconds(3))
    loop.execute {}  // a turn, in case nothing else moves
  }

  private func finishStopping() {
    guard let completion = onStopped else { return }
    onStopped = nil
    socket?.flush()
    socket?.close()
    let end = { [store] in
      store?.link.stop()
      completion()
    }
    if number == 0, store.link.isUp { store.directory.removeNode { _ in end() } } else { end() }
  }
}

// MARK: - What the switchboard needs

extension Reactor: SwitchboardPorts {
  var now: Instant { loop.now }
  var wallClockMilliseconds: UInt64 { EventLoop.wallClockMilliseconds }

  func refusesLogins() -> Refusal? {
    let now = loop.now
    if gauge.isOverloaded(now: now) {
      shared.counters.loginsRefusedByLoad.add()
      return Refusal(.overloaded, "the server is overloaded, try again", retryAfterMilliseconds: 2000)
    }
    guard let wait = shared.admission.login(now: now) else { return nil }
    shared.counters.loginsRefusedByRate.add()
    let milliseconds = max(1000, UInt32(clamping: wait.nanoseconds / 1_000_000))
    return Refusal(.overloaded, "too many logins at a time, try again", retryAfterMilliseconds: milliseconds)
  }

  func claims(of token: String) -> Result<TokenClaims, LoginFailure> {
    shared.tokens.check(token, wallClockSeconds: EventLoop.wallClockSeconds)
  }

  func openSession(user: String, login: Login, proposedEpoch: UInt64, completion: @escaping (LoginGrant?) -> Void) {
    store.openSession(user: user, login: login, proposedEpoch: proposedEpoch, completion: completion)
  }

  func storeRevocation(user: String, until: UInt64, completion: @escaping (Bool) -> Void) {
    let (now, end) = (EventLoop.wallClockSeconds, until + Revocations.lifetimeSeconds)
    guard end > now else { return completion(true) }
    store.revoke(user: user, until: until, lifetimeSeconds: end - now, completion: completion)
  }

  var leewaySeconds: UInt64 { shared.tokens.leewaySeconds }

  var counterValues: [SessionAnswer.Counter] {
    count()
    return shared.counters.registry.values.map { SessionAnswer.Counter(name: $0.key, value: $0.value) }
      .sorted { $0.name < $1.name }
  }

  func writeEndpoint(_ record: EndpointRecord) { store.write(record) }
  func removeEndpoint(_ record: EndpointRecord) { store.remove(record) }

  var inboxState: InboxState { inbox.state }

  func append(
    _ message: InboxMessage, to user: String, knownDead: UInt64, spilling: UInt64, refusesStrangers: Bool,
    completion: @escaping (InboxAnswer?) -> Void
  ) {
    inbox.append(
      message, to: user, knownDead: knownDead, spilling: spilling, refusesStrangers: refusesStrangers,
      completion: completion)
  }

  func readInbox(
    of user: String, after: InboxEntry.ID?, count: Int, bytes: Int, completion: @escaping ([InboxEntry]?) -> Void
  ) {
    inbox.read(of: user, after: after, count: count, bytes: bytes, completion: completion)
  }

  func confirmInbox(
    of user: String, entries: [InboxEntry.ID], marks: [Mark], completion: @escaping (Bool) -> Void
  ) {
    inbox.confirm(of: user, entries: entries, marks: marks, completion: completion)
  }

  func readMarks(of sender: SessionEntry.SenderDevice, completion: @escaping ([MarkSet]?) -> Void) {
    inbox.readMarks(of: sender, completion: completion)
  }

  func confirmMarks(_ marks: [Mark], completion: @escaping (Bool) -> Void) {
    inbox.confirmMarks(marks, completion: completion)
  }

  func isAlive(node: String, completion: @escaping (Bool?) -> Void) {
    inbox.isAlive(node: node, completion: completion)
  }

  func makeProtection(secret: [UInt8], cipher: UInt32) -> any DatagramProtection {
    AEADProtection(secret: secret, cipher: cipher, isServer: true)
  }

  func wipe(_ secret: inout [UInt8]) { secret.wipe() }
  func isKnown(cipher: UInt32) -> Bool { AEADProtection.isKnown(cipher) }
  func randomBytes(_ count: Int) -> [UInt8] { RandomBytes.bytes(count) }
  func random() -> UInt64 { RandomBytes.uint64() }
  func nextEpoch() -> UInt64 { shared.nextEpoch() }
  func post(_ note: Note, to reactor: UInt8) { notes[Int(reactor)].append(note) }

  func sessionEnded(_ entry: SessionEntry) {
    let id = entry.session.id
    waiting.remove(id)
    guard let stream = streams.removeValue(forKey: id) else { return }
    // Nothing can be said inside a handshake; waiting for the peer would only keep the descriptor.
    guard stream.isOpen else { return stream.close() }
    write(entry.session, to: stream)
    streamsClosing += 1
    stream.closeAfterFlush(deadline: .seconds(2)) { [unowned self] in self.streamsClosing -= 1 }
  }
}
