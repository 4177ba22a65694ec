/// A server's side of one connection, from accept to end. Sans-I/O: the reactor feeds bytes and time, and writes what
/// `takeStream()` and `flush` give.
public final class ServerSession {
  enum State { case awaitingLogin, loggingIn, active, ended }

  public let channel = Channel()
  public unowned let owner: any ServerSessionOwner
  /// A number the owner chose, unique on its reactor.
  public let id: UInt64
  var state = State.awaitingLogin
  /// The token's subject, empty before login.
  public private(set) var user = ""
  public private(set) var deviceNumber: UInt32 = 0
  public private(set) var epoch: UInt64 = 0
  public private(set) var isSendOnly = false
  /// The client takes kept outcomes.
  public private(set) var takesKept = false
  public private(set) var roomMessages = 0
  public private(set) var roomBytes = 0

  let limits: SessionLimits
  /// When its token is over.
  public private(set) var expires = Instant.never

  let loginDeadline: Instant
  let random: () -> UInt64
  var loginSequence: UInt16 = 0
  var lastHeard: Instant
  var paths = UnprovenPaths()
  /// Datagrams go to an address that is not proven.
  var move: Move?
  /// Until then no further move asks the old address, or sends anything besides what is due: whoever copies every datagram
  /// of the client moves the path with each.
  var nextMoveAsks = Instant(nanoseconds: 0)
  var nextProbeRequest = Instant.never
  var pathWentDown = Instant(nanoseconds: 0)
  var lastPathUp = Instant(nanoseconds: 0)
  // While a datagram is read: where it came from, and what of it was taken.
  var source: PeerAddress?
  var heldInDatagram: [(user: String, order: UInt64)] = []
  // BOUND: one a datagram that came, emptied by the next flush, which follows each batch; more than 16 are dropped.
  var pongs: [UInt64] = [] { didSet { if pongs.count > 16 { pongs.removeFirst() } } }

  /// - Parameter random: unpredictable numbers, for challenges: a client must not guess what it has to receive.
  public init(
    id: UInt64, owner: any ServerSessionOwner, limits: SessionLimits = SessionLimits(),
    keyLimits: KeyLimits = KeyLimits(), now: Instant,
    random: @escaping () -> UInt64
  ) {
    self.id = id
    channel.phases.limits = keyLimits
    channel.redundancy.mode = limits.redundancy
    self.owner = owner
    self.limits = limits
    self.random = random
    lastHeard = now
    loginDeadline = now + limits.loginTime
  }

  public var isActive: Bool { state == .active }
  /// A login came and is not answered yet.
  public var isLoggingIn: Bool { state == .loggingIn }
  public var isEnded: Bool { state == .ended }
  public var path: PathState { channel.path }
  /// Where the client's datagrams come from, once proven.
  public var provenAddress: PeerAddress? { move?.home ?? channel.peer }
  /// Why the session goes on without UDP, nil while it need not.
  public var udpEnd: UDPEnd? { channel.udpEnd }
  public var connectionId: UInt64 { channel.connectionId }
  public var rtt: RTTEstimator { channel.rtt }
  public var counters: ChannelCounters { channel.snapshot() }
  /// How its datagrams fare.
  public var pathStatistics: PathStatistics { channel.pathStatistics }
  /// Messages handed over to this client and not finished.
  public var pendingMessages: Int { channel.window.count }
  /// Bytes of them.
  public var pendingBytes: Int { channel.window.bytes }

  // MARK: - Login

  /// The login is good.
  ///
  /// - Parameters:
  ///   - protection: nil when client or server does without UDP.
  ///   - expires: when the session ends by itself, for its token is over; `renew` puts it off.
  public func accept(
    _ reply: LoginReply, login: Login, protection: (any DatagramProtection)?, expires: Instant = .never, now: Instant
  ) {
    guard state == .loggingIn else { return }
    state = .active
    user = reply.user
    deviceNumber = reply.deviceNumber
    epoch = reply.sessionEpoch
    self.expires = expires
    isSendOnly = login.sendOnly
    takesKept = reply.features & WireFeatures.keptOutcomes != 0
    roomMessages = limits.pendingMessages
    roomBytes = limits.pendingBytes
    setRoom(messages: login.receiveMessages, bytes: login.receiveBytes)
    channel.assembler.limit = WireLimits.maximumPacketBytes
    // So that the secret in it lies in one place: an array that grows leaves a copy behind.
    channel.stream.reserveCapacity(channel.stream.count + WireLimits.maximumPacketBytesBeforeLogin)
    channel.writeStream(.login, flags: .response, sequence: loginSequence, payload: reply.append)
    if let protection { channel.startProbing(protection, connectionId: reply.connectionId, seed: random(), now: now) }
  }

  /// Goes on with what came behind the login while it was under way.
  public func continueReading(now: Instant) { readPackets(now: now) }

  /// The login is not good; the connection closes.
  public func refuse(_ refusal: Refusal, now: Instant) {
    guard state == .loggingIn else { return }
    channel.writeStream(.login, flags: [.response, .error], sequence: loginSequence, payload: refusal.append)
    finish(refusal, now: now)
  }

  /// Ends the session and tells the client why.
  public func end(_ refusal: Refusal, now: Instant) {
    guard state != .ended else { return }
    channel.writeStream(.ended, payload: refusal.append)
    finish(refusal, now: now)
  }

  /// The connection is gone.
  public func connectionClosed(now: Instant) {
    if state != .ended { finish(Refusal(.unspecified, "connection closed"), now: now) }
  }

  func finish(_ refusal: Refusal, now: Instant) {
    state = .ended
    owner.session(self, endedWith: refusal, now: now)
  }

  /// The client's word, up to what this server keeps for a session; 0 leaves it as it is.
  func setRoom(messages: UInt32, bytes: UInt64) {
    if messages > 0 { roomMessages = min(Int(messages), limits.pendingMessages) }
    if bytes > 0 { roomBytes = Int(min(bytes, UInt64(limits.pendingBytes))) }
  }

  // MARK: - Requests

  /// The client brought another token: the session ends with that one.
  public func renew(until expires: Instant) { self.expires = expires }

  public func answer(_ ticket: RequestTicket, _ answer: SessionAnswer) {
    guard state == .active else { return }
    channel.writeStream(ticket.command, flags: .response, sequence: ticket.sequence, payload: answer.append)
  }

  /// The request is not granted; the session lives.
  public func refuse(_ ticket: RequestTicket, _ refusal: Refusal) {
    guard state == .active else { return }
    channel.writeStream(
      ticket.command, flags: [.response, .error], sequence: ticket.sequence, payload: refusal.append)
  }

  // MARK: - Towards the client

  /// Whether the client, and this session, have room for one more message of `bytes`.
  ///
  /// - Parameter fillsGap: later messages of its conversation are pending. The client cannot show those before this
  ///   one, so that no room would ever come free: it gets as much room again, and a little.
  public func hasRoom(bytes: Int, fillsGap: Bool = false) -> Bool {
    let messages = fillsGap ? 2 * roomMessages + 64 : roomMessages
    let limit = fillsGap ? 2 * roomBytes + WireLimits.maximumPacketBytes : roomBytes
    return channel.window.count < messages && channel.window.bytes + bytes <= limit
  }

  /// Relays a message; `finish(_:)` ends it.
  public func deliver(_ key: MessageKey, _ message: EncodedMessage) {
    channel.insert(key, message, byTCP: false)
  }

  /// The message is finished.
  ///
  /// - Returns: the bytes that were held for it.
  @discardableResult
  public func finish(_ key: MessageKey) -> Int { channel.window.remove(key)?.message.bytes.count ?? 0 }

  public func holds(_ key: MessageKey) -> Bool { channel.window.entries[key] != nil }

  /// Messages handed over and not finished, by conversation and order.
  public func pending() -> [(key: MessageKey, message: EncodedMessage)] {
    channel.window.entries.map { ($0.key, $0.value.message) }.sorted { $0.key.rawValue < $1.key.rawValue }
  }

  /// Tells the client what became of messages that it sent and that are finished, until it says it back.
  public func report(kept state: MessageState, to user: String, orders: ClosedRange<UInt64>, now: Instant) {
    channel.outcomes.add(kept: state, user: user, orders: orders, now: now)
  }

  /// Tells the client what became of a message it sent.
  public func report(
    _ state: MessageState, to user: String, order: UInt64, code: ErrorCode = .unspecified,
    retryAfter: Interval = .zero, now: Instant
  ) {
    channel.outcomes.add(
      state, user: user, order: order, code: code,
      retryAfterMilliseconds: UInt32(retryAfter.nanoseconds / 1_000_000), now: now)
  }
}
