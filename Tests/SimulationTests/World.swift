import SimpCore

/// A world without threads, sockets and clocks: whatever happens, happens at the instant of an event or of a
/// deadline, in an order that the seed fixes.
final class World {
  let seed: UInt64
  static let beginning = Instant(nanoseconds: 1_000_000_000)
  private(set) var now = World.beginning
  let start: Instant
  private(set) var clients: [SimulatedClient] = []
  private(set) var server: SimulatedServer!
  let ledger: Ledger
  let keyLimits: KeyLimits
  let redundancy: Redundancy
  private(set) var failures: [String] = []
  private(set) var steps = 0

  private var events = EventHeap()
  private var stepsAtThisInstant = 0
  private var nextConnection: UInt64 = 0
  /// Bytes from and to addresses, for the amplification limit.
  private var bytesFrom: [PeerAddress: Int] = [:]
  private var bytesTo: [PeerAddress: Int] = [:]
  /// Addresses where one of our clients got something.
  private(set) var reached: Set<PeerAddress> = []
  private(set) var misdirected = 0
  /// What was sealed by anybody, before and after servers died.
  private var nonces: Set<ChecksumProtection.Nonce> = []
  private(set) var forged = 0
  /// Whether the datagram that was sealed last has a receipt in it.
  private var hasReceipt = false
  private(set) var streamUp = StreamCounters()
  private(set) var streamDown = StreamCounters()
  /// Connections that broke.
  private(set) var cuts = 0
  // Those that are not closed yet.
  private var connections: [UInt64: Connection] = [:]
  /// Nobody reconnects, so the order in which messages are taken tells whether refused ones are waited for.
  var watchesRefusals = false
  /// Which losses each message met, when somebody wants to know.
  var losses: LossTrace?

  init(
    seed: UInt64, reactors: Int = 1, keyLimits: KeyLimits = KeyLimits(), redundancy: Redundancy = .idle,
    storeDelay: Interval = .zero, serverSleeps: [Range<Interval>] = []
  ) {
    self.seed = seed
    self.keyLimits = keyLimits
    self.redundancy = redundancy
    start = now
    ledger = Ledger()
    let sleeps = serverSleeps.map { span($0) }
    server = SimulatedServer(world: self, reactors: reactors, storeDelay: storeDelay, sleeps: sleeps)
    server.start()
  }

  func random(_ purpose: UInt64) -> SeededRandom { SeededRandom(seed: seed, purpose: purpose) }

  func add(_ client: SimulatedClient) { clients.append(client) }

  func client(_ name: String) -> SimulatedClient {
    guard let client = clients.first(where: { $0.name == name }) else { preconditionFailure("no client \(name)") }
    return client
  }

  func fail(_ text: String) {
    if failures.count < 5 { failures.append("\((now - start).milliseconds) ms: \(text)") }
  }

  /// The network is well from now on.
  func heal() {
    for client in clients { client.heal() }
    for connection in connections.values {
      connection.up.heal()
      connection.down.heal()
    }
  }

  // MARK: - Time

  /// A span of the run, counted from its beginning.
  func span(_ span: Range<Interval>) -> Range<Instant> { start + span.lowerBound..<start + span.upperBound }

  /// Something happens at an instant of the run, counted from its beginning.
  func at(_ time: Interval, _ body: @escaping () -> Void) { schedule(start + time, body) }

  func schedule(_ instant: Instant, _ body: @escaping () -> Void) { events.insert(max(instant, now), body) }

  /// The run is over: what was still to happen, and may hold the world, never does.
  func forgetEvents() { events = EventHeap() }

  /// Jumps to what happens next and lets it happen.
  ///
  /// - Returns: false when nothing happens before `limit`.
  func step(limit: Instant) -> Bool {
    var next = events.first ?? .never
    for client in clients { next = min(next, client.deadline) }
    next = min(next, server.deadline)
    guard next < limit else { return false }
    steps += 1
    stepsAtThisInstant = next <= now ? stepsAtThisInstant + 1 : 0
    // BOUND: a deadline that never moves on would hold the run here for ever.
    if stepsAtThisInstant == 5000 {
      let late = clients.filter { $0.deadline <= now }.map(\.name)
      fail("livelock: 5000 steps at one instant, due: \(late) server: \(server.deadline <= now)")
      return false
    }
    now = max(now, next)
    while let body = events.popFirst(until: now) { body() }
    for client in clients { client.pump() }
    server.pump()
    return true
  }

  // MARK: - TCP

  /// Asks for a connection; the server answers by accepting it, or by nothing but its end.
  func connect(_ client: SimulatedClient) -> Connection {
    nextConnection += 1
    let up = StreamLink(
      client.streamUp, delay: client.streamDelay, receiverSleeps: server.sleeps,
      random: random(nextConnection << 8 | 1))
    let down = StreamLink(
      client.streamDown, delay: client.streamDelay, receiverSleeps: client.sleeps,
      random: random(nextConnection << 8 | 2))
    let connection = Connection(id: nextConnection, client: client, up: up, down: down)
    connections[connection.id] = connection
    schedule(up.arrival(now: now)) { [self] in
      if !server.accept(connection) { close(connection, towardsClient: true) }
    }
    return connection
  }

  func send(_ bytes: [UInt8], on connection: Connection, towardsServer: Bool) {
    let link = towardsServer ? connection.up : connection.down
    for read in link.carry(bytes, now: now) {
      schedule(read.arrival) { [self] in
        link.delivered(read.bytes.count)
        if towardsServer {
          server.receive(read.bytes, on: connection)
        } else {
          connection.client.receive(read.bytes, on: connection)
        }
      }
    }
  }

  /// One end closed: the other end sees it after all that was sent.
  func close(_ connection: Connection, towardsClient: Bool) {
    forget(connection)
    let link = towardsClient ? connection.down : connection.up
    schedule(link.arrival(now: now)) { [self] in
      if towardsClient { connection.client.closed(connection) } else { server.closed(connection) }
    }
  }

  /// The connection breaks at both ends; what is under way is gone.
  func cut(_ connection: Connection) {
    connection.isCut = true
    cuts += 1
    forget(connection)
    connection.client.closed(connection)
    server.closed(connection)
  }

  private func forget(_ connection: Connection) {
    guard connections.removeValue(forKey: connection.id) != nil else { return }
    streamUp += connection.up.counters
    streamDown += connection.down.counters
  }

  /// Counts what the connections did that are still there.
  func countConnections() { for connection in connections.values.sorted(by: { $0.id < $1.id }) { forget(connection) } }

  // MARK: - UDP

  func protection(secret: [UInt8], isServer: Bool) -> ChecksumProtection {
    ChecksumProtection(secret: secret, isServer: isServer) { [unowned self] nonce, plaintext, hasReceipt in
      self.hasReceipt = hasReceipt
      losses?.sealing(plaintext, hasReceipt: hasReceipt)
      if !nonces.insert(nonce).inserted { fail("packet number \(nonce.number) was sealed twice under one key") }
    }
  }

  func sendToServer(_ bytes: [UInt8], from client: SimulatedClient) {
    let address = client.address
    let copies = client.up.carry(bytes, hasReceipt: hasReceipt, now: now)
    losses?.left(LossTrace.Road(client: client.name, isUp: true), isLost: copies.isEmpty, now: now)
    for copy in copies {
      if let forger = client.forger, client.isForgedNow() {
        // Someone on the road is faster, and writes an address of his own on the copy.
        forged += 1
        schedule(server.awake(now + Interval(nanoseconds: (copy.arrival - now).nanoseconds / 2))) { [self] in
          arrive(copy.bytes, from: forger)
        }
      }
      schedule(client.up.reading(of: copy)) { [self] in
        client.up.delivered(copy)
        arrive(copy.bytes, from: address)
      }
    }
  }

  /// A datagram is at the server, from whoever wrote that address on it.
  func arrive(_ bytes: [UInt8], from address: PeerAddress) {
    bytesFrom[address, default: 0] += bytes.count
    server.receive(datagram: bytes, from: address)
  }

  func sendToClient(_ bytes: [UInt8], to address: PeerAddress, isProven: Bool) {
    if !isProven {
      bytesTo[address, default: 0] += bytes.count
      if bytesTo[address, default: 0] > 3 * bytesFrom[address, default: 0] {
        let sent = bytesFrom[address, default: 0]
        fail("amplification: \(bytesTo[address, default: 0]) bytes to \(address), which sent \(sent)")
      }
    }
    guard let client = clients.first(where: { $0.address == address }) else {
      misdirected += 1
      return
    }
    let copies = client.down.carry(bytes, hasReceipt: hasReceipt, now: now)
    losses?.left(LossTrace.Road(client: client.name, isUp: false), isLost: copies.isEmpty, now: now)
    for copy in copies {
      schedule(client.down.reading(of: copy)) { [self] in
        guard client.address == address else { return }
        client.down.delivered(copy)
        reached.insert(address)
        client.receive(datagram: copy.bytes)
      }
    }
  }
}

/// One TCP connection, seen from both ends.
final class Connection {
  let id: UInt64
  /// The world has it as long as there are connections.
  unowned let client: SimulatedClient
  let up: StreamLink
  let down: StreamLink
  var isCut = false

  init(id: UInt64, client: SimulatedClient, up: StreamLink, down: StreamLink) {
    self.id = id
    self.client = client
    self.up = up
    self.down = down
  }
}
