import SimpSupport

@testable import SimpCore
@testable import SimpRedis
@testable import SimpServer

/// One reactor: its switchboard, and what it writes where.
final class SimulatedReactor: SwitchboardPorts {
  unowned let server: SimulatedServer
  let index: UInt8
  private(set) var switchboard: Switchboard!
  private let generation: UInt64
  private var dirty: [SessionEntry] = []
  private var connections: [UInt64: (entry: SessionEntry, connection: Connection)] = [:]
  private var source: SeededRandom
  /// Notes between reactors are under way for this long.
  private static let noteDelay = Interval.microseconds(200)

  init(
    server: SimulatedServer, index: UInt8, count: Int, node: String, log: Log, registry: CounterRegistry,
    rates: UserRates
  ) {
    self.server = server
    self.index = index
    generation = server.generation
    source = server.world.random(server.generation << 16 | UInt64(index) << 8 | 3)
    var limits = ServerLimits()
    limits.session.redundancy = server.world.redundancy
    switchboard = Switchboard(
      reactor: index, reactors: count, node: node, udpPort: 7468, keyLimits: server.world.keyLimits,
      ports: self, log: log, counters: ServerCounters(registry), limits: limits, rates: rates)
  }

  private var world: World { server.world }
  private var isAlive: Bool { server.generation == generation && server.isUp }

  func begin(_ entry: SessionEntry, on connection: Connection) {
    connections[entry.session.id] = (entry, connection)
    needsFlush(entry)
  }

  func forget(_ entry: SessionEntry) { connections[entry.session.id] = nil }

  // MARK: - Time

  var deadline: Instant {
    if !dirty.isEmpty { return world.now }
    var next = switchboard.inboxOrder.deadline
    for (entry, _) in connections.values {
      next = min(next, entry.session.deadline(now: world.now), entry.inbox.wake)
    }
    return next
  }

  func pump() {
    let now = world.now
    switchboard.tick(now: now)
    for (entry, _) in connections.values where entry.inbox.wake <= now { switchboard.wake(entry) }
    for (entry, _) in connections.values where entry.session.deadline(now: now) <= now { needsFlush(entry) }
    // Flushing one session may give another something to send: again until all are clean.
    while !dirty.isEmpty {
      let batch = dirty.sorted { $0.session.id < $1.session.id }
      dirty = []
      for entry in batch {
        entry.isDirty = false
        flush(entry, now: now)
      }
    }
  }

  private func flush(_ entry: SessionEntry, now: Instant) {
    guard let connection = connections[entry.session.id]?.connection else { return }
    let session = entry.session
    session.flush(now: now, streamRoom: connection.down.room) { datagram, address in
      let isProven = session.path == .up && session.provenAddress == address
      world.sendToClient(copy(datagram), to: address, isProven: isProven)
    }
    let stream = session.channel.takeStream()
    if !stream.isEmpty { world.send(stream, on: connection, towardsServer: false) }
    if session.isEnded { server.finish(connection) }
  }

  // MARK: - SwitchboardPorts

  func refusesLogins() -> Refusal? { nil }

  func claims(of token: String) -> Result<TokenClaims, LoginFailure> {
    guard token.hasPrefix("token-of-") else {
      return .failure(LoginFailure(refusal: Refusal(.tokenInvalid, "no token of ours")))
    }
    return .success(TokenClaims(user: String(token.dropFirst("token-of-".count))))
  }

  func openSession(
    user: String, login: Login, proposedEpoch: UInt64, completion: @escaping (LoginGrant?) -> Void
  ) {
    guard server.storeReturns == nil else { return completion(nil) }
    let grant = server.store.open(user: user, login: login, proposedEpoch: proposedEpoch)
    if server.storeDelay == .zero { return completion(grant) }
    world.schedule(server.awake(world.now + server.storeDelay)) { [self] in
      if isAlive { completion(grant) }
    }
  }

  func writeEndpoint(_ record: EndpointRecord) {
    if let address = record.address, !world.reached.contains(address) {
      world.fail("\(record.user) is written at \(address), where nothing ever reached it")
    }
    let node = switchboard.node
    wish {
      $0.write(record, node: node)
    } answered: { [self] in
      switchboard.endpointWritten(record, state: $0, now: world.now)
    }
  }

  /// Asks the store: what it does, it does after half of its delay, in the order of the calls; the answer takes the rest.
  ///
  /// - Parameter answered: nil: it is away. What it was asked may have been done all the same.
  private func ask<Answer>(
    _ question: @escaping (SimulatedStore) -> Answer, answered: @escaping (Answer?) -> Void
  ) {
    let delay = max(server.storeDelay, Self.storeDelay)
    let half = Interval(nanoseconds: delay.nanoseconds / 2)
    world.schedule(world.now + half) { [self] in
      let answer = server.storeReturns == nil ? question(server.store) : nil
      world.schedule(server.awake(world.now + half)) { [self] in
        if isAlive { answered(server.storeReturns == nil ? answer : nil) }
      }
    }
  }
  /// The least time that a question to the store takes.
  private static let storeDelay = Interval.microseconds(300)

  /// Wants the store to do something, as often as it takes.
  private func wish<Answer>(
    _ question: @escaping (SimulatedStore) -> Answer, answered: @escaping (Answer) -> Void
  ) {
    ask(question) { [self] answer in
      if let answer { return answered(answer) }
      world.schedule(server.storeReturns ?? world.now + .milliseconds(100)) { [self] in
        if isAlive { wish(question, answered: answered) }
      }
    }
  }

  var inboxState: InboxState { server.storeReturns != nil ? .away : server.keepsInboxes ? .ready : .off }

  func append(
    _ message: InboxMessage, to user: String, knownDead: UInt64, spilling: UInt64, refusesStrangers: Bool,
    completion: @escaping (InboxAnswer?) -> Void
  ) {
    ask {
      $0.append(message, to: user, knownDead: knownDead, spilling: spilling)
    } answered: {
      completion($0)
    }
  }

  func readInbox(
    of user: String, after: InboxEntry.ID?, count: Int, bytes: Int, completion: @escaping ([InboxEntry]?) -> Void
  ) {
    ask {
      $0.read(of: user, after: after, count: count, bytes: bytes)
    } answered: {
      completion($0)
    }
  }

  func confirmInbox(
    of user: String, entries: [InboxEntry.ID], marks: [Mark], completion: @escaping (Bool) -> Void
  ) {
    ask { (store) -> Void in
      store.marks.add(marks)
      store.remove(from: user, entries: entries)
    } answered: {
      completion($0 != nil)
    }
  }

  func readMarks(of sender: SessionEntry.SenderDevice, completion: @escaping ([MarkSet]?) -> Void) {
    ask {
      $0.marks.sets(of: sender)
    } answered: {
      completion($0)
    }
  }

  func confirmMarks(_ marks: [Mark], completion: @escaping (Bool) -> Void) {
    ask {
      $0.marks.remove(marks)
    } answered: {
      completion($0 != nil)
    }
  }

  /// A server's name dies with it here.
  func isAlive(node: String, completion: @escaping (Bool?) -> Void) {
    ask { _ in
      node == "node\(self.server.generation)"
    } answered: {
      completion($0)
    }
  }

  func removeEndpoint(_ record: EndpointRecord) {
    wish {
      $0.remove(record)
    } answered: { _ in
    }
  }

  func makeProtection(secret: [UInt8], cipher: UInt32) -> any DatagramProtection {
    world.protection(secret: secret, isServer: true)
  }

  func wipe(_ secret: inout [UInt8]) { secret = [] }
  func isKnown(cipher: UInt32) -> Bool { cipher == 1 }
  func randomBytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8(truncatingIfNeeded: source.next()) } }
  func random() -> UInt64 { source.next() }

  func post(_ note: Note, to reactor: UInt8) {
    if case .relay(let relay) = note { world.ledger.serverHeld(from: relay.from, messageId: relay.messageId) }
    world.schedule(server.awake(world.now + Self.noteDelay)) { [self] in
      guard isAlive else { return }
      server.reactors[Int(reactor)].switchboard.receive(note, now: world.now)
    }
  }

  func needsFlush(_ entry: SessionEntry) {
    guard !entry.isDirty else { return }
    entry.isDirty = true
    dirty.append(entry)
  }

  func sessionEnded(_ entry: SessionEntry) { needsFlush(entry) }

  func storeRevocation(user: String, until: UInt64, completion: @escaping (Bool) -> Void) { completion(true) }
  var leewaySeconds: UInt64 { 0 }
  var counterValues: [SessionAnswer.Counter] { [] }

  func nextEpoch() -> UInt64 { server.nextEpoch() }
  var now: Instant { world.now }
  var wallClockMilliseconds: UInt64 { 1_700_000_000_000 + world.now.nanoseconds / 1_000_000 }
}

/// The bytes of a span.
func copy(_ span: Span<UInt8>) -> [UInt8] {
  var bytes: [UInt8] = []
  bytes.reserveCapacity(span.count)
  for index in 0..<span.count { bytes.append(span[index]) }
  return bytes
}
