@testable import SimpCore

/// How fast an application takes what is there for it.
enum Pace: Sendable {
  case atOnce
  case every(Interval)
  /// Takes at once, but for the first part of each period it takes nothing.
  case stalling(period: Interval, asleep: Interval)
}

/// A client: one user's device with outbox, inbound conversations, an application, and a connection that comes back.
final class SimulatedClient {
  unowned let world: World
  let name: String
  /// The user it logs in as; several clients may be the same one.
  let user: String
  let streamDelay: Interval
  var streamUp = StreamConditions()
  var streamDown = StreamConditions()
  let up: DatagramLink
  let down: DatagramLink
  var address: PeerAddress
  var pace = Pace.atOnce
  var room: UInt32 = 1024
  var usesUDP = true
  var isSendOnly = false
  /// Whoever sees its datagrams and sends copies of half of them on, ahead of them, from here.
  var forger: PeerAddress?

  /// When its process does not run; to be said before it starts.
  var sleeps: [Range<Instant>] = [] { didSet { down.receiverSleeps = sleeps } }

  private(set) var outbox: Outbox
  private(set) var session: ClientSession?
  private var inbound: InboundMessages
  private var connection: Connection?
  private var incarnation = 0
  private var attempt = 0
  private var reconnectAt = Instant.never
  private(set) var isWanted = false
  private var random: SeededRandom
  private var shelf: [IncomingMessage] = []
  private var nextTake = Instant.never
  private var names: [MessageKey: (name: Ledger.Name, counter: UInt64)] = [:]
  private var isDirty = false
  private(set) var rebindings = 0
  private(set) var total = ChannelCounters()
  private(set) var sessions = 0
  private(set) var pathUps = 0
  private(set) var pathDowns = 0
  private(set) var endings: [ErrorCode] = []

  init(world: World, name: String, user: String? = nil, up: LinkConditions, down: LinkConditions) {
    self.world = world
    self.name = name
    self.user = user ?? name
    let number = UInt64(world.clients.count + 1)
    streamDelay = max(up.delay, down.delay)
    self.up = DatagramLink(up, random: world.random(number << 32 | 1))
    self.down = DatagramLink(down, random: world.random(number << 32 | 2))
    self.up.receiverSleeps = world.server.sleeps
    address = .v4(10, 0, 0, UInt8(number), port: 40000)
    random = world.random(number << 32 | 3)
    outbox = Outbox(id: random.next() | 1)
    inbound = InboundMessages(roomMessages: Int(room))
    world.add(self)
  }

  private var instance: String { "\(name)/\(incarnation)" }

  // MARK: - What a script does to it

  func start() {
    world.ledger.began(instance: instance, now: world.now)
    isWanted = true
    reconnectAt = world.now
  }

  /// Leaves in good order: what is under way is left to the outbox.
  func leave() {
    isWanted = false
    session?.logout(now: world.now)
    isDirty = true
  }

  /// As `kill -9` and a new process: outbox kept in its file, inbound state gone.
  func kill() {
    isWanted = false
    dropConnection()
    incarnation += 1
    shelf = []
    nextTake = .never
    inbound = InboundMessages(roomMessages: Int(room))
    reconnectAt = .never
  }

  /// Address translation gives it another port.
  func rebind() {
    rebindings += 1
    address.port += 1
  }

  /// It is in another network, with another address.
  func move() {
    rebindings += 1
    address.low += 1 << 16
    address.port += 1
  }

  func heal() {
    up.heal()
    down.heal()
    streamUp = StreamConditions()
    streamDown = StreamConditions()
  }

  /// This instant, or when its process runs again.
  func awake(_ instant: Instant) -> Instant { sleeps.end(from: instant) ?? instant }

  /// From how many untaken messages on it refuses more; to be said before it starts.
  func refuse(above limit: Int) { inbound = InboundMessages(roomMessages: (limit - 1024) / 2) }

  func isForgedNow() -> Bool { random.chance(0.5) }

  func cutConnection() { if let connection { world.cut(connection) } }

  /// - Returns: false when the outbox is full.
  func post(to recipient: String, size: Int, isAwaited: Bool = false) -> Bool {
    let (message, body) = world.ledger.nextBody(from: user, to: recipient, size: size, now: world.now)
    do throws(Outbox.Full) {
      let (key, counter) = try outbox.append(MessageContent(text: body, time: 1), to: recipient, now: world.now)
      names[key] = (message, counter)
      world.ledger.sent(message, now: world.now)
    } catch {
      return false
    }
    session?.wake(isAwaited: isAwaited)
    isDirty = true
    return true
  }

  // MARK: - Input

  func receive(_ bytes: [UInt8], on connection: Connection) {
    guard connection === self.connection, !connection.isCut, let session else { return }
    session.receive(stream: bytes.span, now: world.now)
    isDirty = true
  }

  func receive(datagram: [UInt8]) {
    guard let session else { return }
    var copy = datagram
    var span = copy.mutableSpan
    session.receive(datagram: &span, now: world.now)
    isDirty = true
  }

  func closed(_ connection: Connection) {
    guard connection === self.connection else { return }
    // The last bytes may say why.
    takeEvents()
    guard connection === self.connection else { return }
    lose(becauseOf: nil)
  }

  // MARK: - Time

  var deadline: Instant {
    let next = isDirty ? world.now : min(reconnectAt, session?.deadline(now: world.now) ?? .never, takeDeadline)
    return sleeps.isEmpty || next == .never ? next : awake(max(next, world.now))
  }

  private var takeDeadline: Instant { shelf.isEmpty ? .never : nextTake }

  func pump() {
    guard deadline <= world.now else { return }
    isDirty = false
    if reconnectAt <= world.now { connect() }
    takeEvents()
    takeFromShelf()
    guard let session, let connection else { return }
    session.flush(now: world.now, streamRoom: connection.up.room) { datagram, _ in
      world.sendToServer(copy(datagram), from: self)
    }
    takeEvents()
    takeFromShelf()
    write()
  }

  private func write() {
    guard let session, let connection else { return }
    let stream = session.channel.takeStream()
    if !stream.isEmpty { world.send(stream, on: connection, towardsServer: true) }
  }

  private func connect() {
    reconnectAt = .never
    guard isWanted, connection == nil else { return }
    let connection = world.connect(self)
    self.connection = connection
    var login = Login()
    login.token = "token-of-\(user)"
    login.receiveMessages = room
    login.receiveBytes = 4 << 20
    login.ciphers = usesUDP ? [1] : []
    login.sendOnly = isSendOnly
    session = ClientSession(
      login, outbox: outbox, inbound: inbound, keyLimits: world.keyLimits, redundancy: world.redundancy, now: world.now)
  }

  private func takeEvents() {
    guard let session else { return }
    // Messages that came before the end stand behind it.
    var end: Refusal??
    for event in session.takeEvents() {
      switch event {
      case .loggedIn(let reply):
        attempt = 0
        sessions += 1
        if reply.udpPort != 0 {
          let protection = world.protection(secret: session.takeUDPSecret(), isServer: false)
          session.startUDP(
            protection, server: .v4(10, 9, 9, 9, port: UInt16(reply.udpPort)), seed: random.next(), now: world.now)
        }
      case .message(let message):
        if shelf.isEmpty { nextTake = firstTake() }
        shelf.append(message)
      case .accepted(let key, _, _):
        guard let (name, counter) = names[key] else { break }
        let id = UInt64(outbox.deviceNumber) << 40 | counter
        world.ledger.accepted(name, messageId: id, now: world.now)
      case .later: world.ledger.later()
      case .finished(let key, let state, _, _, _):
        if let (name, _) = names[key] { world.ledger.finished(name, state, now: world.now) }
      case .followed(let conversation, let state, let ranges):
        for order in ranges.joined() {
          let key = MessageKey(conversation: conversation, order: order)
          if let (name, _) = names[key] { world.ledger.followed(name, state) }
        }
      case .ended(let refusal): end = refusal
      case .failed(let reason):
        if !gaveUpRightly { world.fail("\(name): \(reason)") }
        end = .some(nil)
      case .pathUp: pathUps += 1
      case .pathDown: pathDowns += 1
      case .pong, .answered: break
      }
    }
    if let end { lose(becauseOf: end) }
  }

  /// A login that TCP itself held up is given up, and another connection tried, as any client does; one that the network
  /// let pass has to be answered in time.
  private var gaveUpRightly: Bool {
    guard let session, session.reply == nil, let connection else { return false }
    return [connection.up.counters, connection.down.counters].contains { $0.stalled + $0.sleptOver > 0 }
  }

  private func lose(becauseOf refusal: Refusal?) {
    if let refusal { endings.append(refusal.code) }
    dropConnection()
    if refusal?.code == .replaced { isWanted = false }
    guard isWanted else { return }
    // Full jitter, from 50 ms up to 10 s.
    let ceiling = min(Interval.milliseconds(50) * (1 << Int64(min(attempt, 8))), .seconds(10))
    attempt += 1
    reconnectAt = world.now + random.interval(upTo: ceiling)
  }

  private func dropConnection() {
    if let session { total += session.counters }
    if let connection, !connection.isCut {
      write()
      world.close(connection, towardsClient: false)
    }
    session?.connectionClosed(now: world.now)
    connection = nil
    session = nil
  }

  // MARK: - The application

  private func firstTake() -> Instant {
    switch pace {
    case .atOnce: return world.now
    case .every(let interval): return world.now + interval
    case .stalling(let period, let asleep):
      let phase = Interval(nanoseconds: (world.now - world.start).nanoseconds % period.nanoseconds)
      return phase < asleep ? world.now + (asleep - phase) : world.now
    }
  }

  private func takeFromShelf() {
    while !shelf.isEmpty, nextTake <= world.now {
      let message = shelf.removeFirst()
      world.ledger.taken(message, by: instance, user: user, now: world.now)
      inbound.markTaken(from: message.from, device: message.device, order: message.order)
      session?.acknowledge(from: message.from, device: message.device, order: message.order, now: world.now)
      isDirty = isDirty || session != nil
      nextTake = firstTake()
    }
  }

  // MARK: - What is checked

  func checkBounds() {
    // What lies here untaken or held is bounded by the room that was announced; copies of an earlier session may lie
    // here besides.
    if shelf.count > 2 * Int(room) + 1024 { world.fail("\(name) has \(shelf.count) untaken messages") }
    if outbox.count > outbox.limitMessages { world.fail("\(name) has \(outbox.count) messages in its outbox") }
    guard let session else { return }
    let channel = session.channel
    if let excess = channel.excess { world.fail("\(name) \(excess)") }
    if channel.window.count > WireLimits.windowMessages { world.fail("\(name): window over its limit") }
    if channel.sent.bytesInFlight > channel.mostBytesInFlight {
      world.fail("\(name) has \(channel.sent.bytesInFlight) bytes in flight")
    }
    if channel.received.ranges.count > WireLimits.maximumReceiptRanges { world.fail("\(name) keeps too many ranges") }
    // Each datagram counts once, however often it arrives.
    guard let connection, let server = world.server.session(on: connection)?.counters else { return }
    if server.keyChangesTooSoon > 0 { world.fail("\(name) changed its key too soon") }
    if server.datagramsReceived > channel.counters.datagramsSent {
      world.fail("the server took in \(server.datagramsReceived) datagrams of \(channel.counters.datagramsSent)")
    }
    if channel.counters.datagramsReceived > server.datagramsSent {
      world.fail("\(name) took in \(channel.counters.datagramsReceived) datagrams of \(server.datagramsSent)")
    }
  }

  var unrest: [String] {
    var found: [String] = []
    if outbox.count > 0 { found.append("\(name): \(outbox.count) in the outbox") }
    if !shelf.isEmpty { found.append("\(name): \(shelf.count) untaken") }
    if let session {
      if session.channel.window.count > 0 { found.append("\(name): \(session.channel.window.count) in the window") }
      if !session.channel.outcomes.isEmpty { found.append("\(name): outcomes wait") }
      if session.path == .up, session.channel.sent.hasElicitingInFlight { found.append("\(name): datagrams fly") }
      if inbound.deadline != nil { found.append("\(name): waits for a gap") }
    } else if isWanted {
      found.append("\(name): not connected")
    }
    return found
  }

  /// Counters of all its sessions.
  var counters: ChannelCounters {
    var sum = total
    if let session { sum += session.counters }
    return sum
  }
}

extension Channel {
  /// The largest congestion window so far, for what flies stays when it shrinks; and probes, which do not ask: one at the
  /// first timeout, two at the second, none at the third, for the path is down.
  var mostBytesInFlight: Int { sent.congestion.largest + 3 * WireLimits.maximumDatagramBytes }

  /// What of its queues and tables is over its limit.
  var excess: String? {
    if sent.kept > SentDatagrams.maximumKept { return "keeps \(sent.kept) sent datagrams" }
    // Whoever drives a channel takes the stream after each flush, so that only its last packets lie there.
    if stream.count > StreamLink.capacity + 2 * WireLimits.maximumPacketBytes {
      return "has \(stream.count) bytes to write"
    }
    if assembler.bufferedBytes > 2 * WireLimits.maximumPacketBytes {
      return "has \(assembler.bufferedBytes) bytes unread"
    }
    if window.bytes > WireLimits.windowBytes + WireLimits.maximumPacketBytes {
      return "has \(window.bytes) bytes in its window"
    }
    return nil
  }
}

extension ChannelCounters {
  static func += (left: inout ChannelCounters, right: ChannelCounters) {
    left.datagramsSent += right.datagramsSent
    left.datagramsReceived += right.datagramsReceived
    left.datagramsReplayed += right.datagramsReplayed
    left.datagramsForged += right.datagramsForged
    left.keyChanges += right.keyChanges
    left.keyChangesOfPeer += right.keyChangesOfPeer
    left.keyChangesTooSoon += right.keyChangesTooSoon
    left.messagesByUDP += right.messagesByUDP
    left.messagesByTCP += right.messagesByTCP
    left.messagesEscalated += right.messagesEscalated
    left.retransmissions += right.retransmissions
    left.redundantCopies += right.redundantCopies
    left.probeTimeouts += right.probeTimeouts
  }
}
