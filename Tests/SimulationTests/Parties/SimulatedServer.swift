import SimpSupport
import Synchronization

@testable import SimpCore
@testable import SimpServer

/// A server process around real switchboards. Killing it loses all it had in memory; the store stays.
final class SimulatedServer {
  unowned let world: World
  let store = SimulatedStore()
  let storeDelay: Interval
  let isMultiReactor: Bool
  /// Whether its store is good enough for messages.
  var keepsInboxes = false
  /// When the store is not there.
  private var storeAway: [Range<Instant>] = []
  /// When its process does not run.
  let sleeps: [Range<Instant>]
  private let reactorCount: Int
  private(set) var reactors: [SimulatedReactor] = []
  private(set) var generation: UInt64 = 0
  private var accepted = 0
  private var epochs: UInt64 = 1 << 40
  private var places: [UInt64: Place] = [:]
  private let lines = LogLines()
  private var refused: [String: Set<UInt64>] = [:]

  struct Place {
    var reactor: SimulatedReactor
    var entry: SessionEntry
    var connection: Connection
  }

  init(world: World, reactors: Int, storeDelay: Interval, sleeps: [Range<Instant>]) {
    self.world = world
    self.storeDelay = storeDelay
    self.sleeps = sleeps
    reactorCount = reactors
    isMultiReactor = reactors > 1
  }

  var isUp: Bool { !reactors.isEmpty }

  func start() {
    generation += 1
    let registry = CounterRegistry()
    let lines = lines
    let log = Log(level: .debug) { lines.add($0) }
    let rates = UserRates(ServerLimits())
    reactors = (0..<reactorCount).map { index in
      SimulatedReactor(
        server: self, index: UInt8(index), count: reactorCount, node: "node\(generation)", log: log, registry: registry,
        rates: rates)
    }
  }

  /// As `kill -9`: nothing is said to anybody.
  func kill() {
    for place in places.values.sorted(by: { $0.connection.id < $1.connection.id }) {
      world.close(place.connection, towardsClient: true)
    }
    places = [:]
    reactors = []
  }

  /// Kills it at these times, and starts it again so much later; in milliseconds since the beginning.
  func scheduleKills(at times: [Int64], for outage: Int64) {
    for time in times {
      world.at(.milliseconds(time)) { [unowned self] in kill() }
      world.at(.milliseconds(time + outage)) { [unowned self] in start() }
    }
  }

  func storeIsAway(_ spans: [Range<Interval>]) {
    storeAway = spans.map { world.span($0) }
    for span in spans {
      world.at(span.lowerBound) { [unowned self] in
        for reactor in reactors { reactor.switchboard.storeWentDown(now: world.now) }
      }
      world.at(span.upperBound) { [unowned self] in
        for reactor in reactors { reactor.switchboard.rewriteEndpoints() }
      }
    }
  }

  /// Until when the store is away; nil while it is there.
  var storeReturns: Instant? { storeAway.end(from: world.now) }

  func nextEpoch() -> UInt64 {
    epochs += 1
    return epochs
  }

  // MARK: - Input

  func accept(_ connection: Connection) -> Bool {
    guard isUp, !connection.isCut else { return false }
    let reactor = reactors[accepted % reactors.count]
    accepted += 1
    let entry = reactor.switchboard.begin(now: world.now)
    places[connection.id] = Place(reactor: reactor, entry: entry, connection: connection)
    reactor.begin(entry, on: connection)
    return true
  }

  func receive(_ bytes: [UInt8], on connection: Connection) {
    guard !connection.isCut, let place = places[connection.id] else { return }
    place.entry.session.receive(stream: bytes.span, now: world.now)
    place.reactor.needsFlush(place.entry)
  }

  func receive(datagram: [UInt8], from address: PeerAddress) {
    guard datagram.count > 2, isUp else { return }
    // The kernel steers by the first byte of the connection id; a broken one lands anywhere.
    let reactor = reactors[Int(datagram[2]) % reactors.count]
    guard let header = DatagramHeader(reading: datagram.span),
      let entry = reactor.switchboard.entry(connectionId: header.connectionId)
    else { return }
    var copy = datagram
    var span = copy.mutableSpan
    entry.session.receive(datagram: &span, from: address, now: world.now)
    reactor.needsFlush(entry)
  }

  func closed(_ connection: Connection) {
    guard let place = places.removeValue(forKey: connection.id) else { return }
    place.entry.session.connectionClosed(now: world.now)
    place.reactor.forget(place.entry)
  }

  /// The server's own end of a session: the connection closes when its stream is written.
  func finish(_ connection: Connection) {
    guard let place = places.removeValue(forKey: connection.id) else { return }
    place.reactor.forget(place.entry)
    world.close(connection, towardsClient: true)
  }

  // MARK: - Time

  var deadline: Instant {
    var next = Instant.never
    for reactor in reactors { next = min(next, reactor.deadline) }
    return sleeps.isEmpty || next == .never ? next : awake(max(next, world.now))
  }

  /// This instant, or when its process runs again.
  func awake(_ instant: Instant) -> Instant { sleeps.end(from: instant) ?? instant }

  func pump() {
    guard awake(world.now) == world.now else { return }
    // Notes between reactors take time, so one round is enough.
    for reactor in reactors { reactor.pump() }
    for line in lines.take() { read(line) }
  }

  /// What the log says of messages: by it the ledger knows what a server had in memory. A body never stands there.
  private func read(_ line: String) {
    if line.contains(Ledger.marker) { world.fail("a body in the log: \(line)") }
    let isRelayed =
      line.contains("message relayed") || line.contains("message for the inbox")
      || line.contains("message waits")
    guard isRelayed || line.contains("message later") else { return }
    var fields: [Substring: Substring] = [:]
    for word in line.split(whereSeparator: { $0 == " " || $0 == "\n" }) {
      let parts = word.split(separator: "=", maxSplits: 1)
      if parts.count == 2 { fields[parts[0]] = parts[1] }
    }
    guard let from = fields["from"], let id = fields["id"].flatMap({ UInt64($0) }) else { return }
    if isRelayed { world.ledger.serverHeld(from: String(from), messageId: id) }
    guard world.watchesRefusals, let to = fields["to"] else { return }
    guard let order = fields["order"].flatMap({ UInt64($0) }) else { return }
    noteRefusal("\(from)>\(to)", order: order, isRelayed: isRelayed)
  }

  /// What was refused goes before what follows it, else it might find no room for ever.
  private func noteRefusal(_ conversation: String, order: UInt64, isRelayed: Bool) {
    guard isRelayed else {
      refused[conversation, default: []].insert(order)
      return
    }
    refused[conversation]?.remove(order)
    if let lowest = refused[conversation]?.min(), lowest < order {
      world.fail("\(conversation) \(order) was taken while \(lowest) was refused")
    }
  }

  /// Everything that peers can make grow is under its limit.
  func checkBounds() {
    for reactor in reactors {
      let board: Switchboard = reactor.switchboard
      let held = board.entries.values.reduce(0) { $0 + $1.session.pendingBytes + $1.inbox.waitingBytes }
      if board.heldBytes != held { world.fail("the server counts \(board.heldBytes) bytes held, and holds \(held)") }
    }
    for place in places.values {
      let channel = place.entry.session.channel
      let session = place.entry.session
      if let excess = channel.excess { world.fail("the server \(excess) for \(session.user)") }
      if place.entry.senders.count > session.pendingMessages {
        world.fail("\(place.entry.senders.count) sender records for \(session.pendingMessages) messages")
      }
      if place.connection.down.bytesUnderWay > 2 * StreamLink.capacity {
        world.fail("\(place.connection.down.bytesUnderWay) bytes wait for \(session.user) on TCP")
      }
      if session.pendingMessages > 2 * session.roomMessages + 64 { world.fail("server window over its limit") }
      // Each move of a client calls forth a probe besides.
      let probes = place.connection.client.rebindings * WireLimits.maximumDatagramBytes
      if channel.sent.bytesInFlight > channel.mostBytesInFlight + probes {
        world.fail("server has \(channel.sent.bytesInFlight) bytes in flight")
      }
      if channel.received.ranges.count > WireLimits.maximumReceiptRanges { world.fail("server keeps too many ranges") }
    }
  }

  /// What is not at rest although nothing is to be done.
  var unrest: [String] {
    places.values.compactMap { place in
      let session = place.entry.session
      if session.pendingMessages > 0 { return "server: \(session.pendingMessages) pending for \(session.user)" }
      if !session.channel.outcomes.isEmpty { return "server: outcomes wait for \(session.user)" }
      if session.path == .up, session.channel.sent.hasElicitingInFlight {
        return "server: datagrams fly to \(session.user)"
      }
      if session.pendingBytes > 0 { return "server: \(session.pendingBytes) bytes pending for \(session.user)" }
      if !place.entry.senders.isEmpty { return "server: sender records are left at \(session.user)" }
      if session.isActive, !session.isSendOnly, place.entry.inbox.phase != .live {
        return "server: \(session.user) is \(place.entry.inbox.phase)"
      }
      return nil
    }
  }

  func session(on connection: Connection) -> ServerSession? { places[connection.id]?.entry.session }
}

/// Gathers log lines; the log may be called from anywhere, here it never is from two threads.
private final class LogLines: Sendable {
  private let lines = Mutex<[String]>([])
  func add(_ line: String) { lines.withLock { $0.append(line) } }
  func take() -> [String] {
    lines.withLock { lines in
      defer { lines = [] }
      return lines
    }
  }
}
