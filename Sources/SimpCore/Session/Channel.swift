/// How a path stands, as one end sees it.
public enum PathState: String, Hashable, Sendable {
  /// No UDP in this session.
  case off
  /// Never proven in this session.
  case probing
  case up
  /// Up, but too much of what was last sent was lost. Only `PathStatistics` tells this from `up`.
  case degraded
  /// Its datagrams are not receipted: everything goes by TCP until it is proven again.
  case down
}

/// What a channel counted since it began.
public struct ChannelCounters: Hashable, Sendable {
  public var datagramsSent: UInt64 = 0
  public var datagramsReceived: UInt64 = 0
  public var datagramsReplayed: UInt64 = 0
  public var datagramsForged: UInt64 = 0
  public var datagramsMalformed: UInt64 = 0
  /// Of a key phase that their number does not belong to, or whose key is forgotten; not tried.
  public var datagramsOutOfPhase: UInt64 = 0
  /// From unproven addresses, beyond what is tried of those.
  public var datagramsUntried: UInt64 = 0
  /// Messages beyond the size that a server takes.
  public var messagesTooLarge: UInt64 = 0
  /// Receipts that named what never left.
  public var receiptsFalse: UInt64 = 0
  /// Changes of our own key, and of the peer's.
  public var keyChanges: UInt64 = 0
  public var keyChangesOfPeer: UInt64 = 0
  /// Datagrams of a peer that changed its key before its last change was confirmed; dropped.
  public var keyChangesTooSoon: UInt64 = 0
  public var datagramsLost: UInt64 = 0
  public var datagramsSpurious: UInt64 = 0
  public var messagesByUDP: UInt64 = 0
  public var messagesByTCP: UInt64 = 0
  public var messagesEscalated: UInt64 = 0
  public var retransmissions: UInt64 = 0
  /// Messages sent twice before anything was lost.
  public var redundantCopies: UInt64 = 0
  public var probeTimeouts: UInt64 = 0
  /// Bytes of the packets of messages, by either channel: of all transmissions, and of the first of each.
  public var messageBytesSent: UInt64 = 0
  public var messageBytesNeeded: UInt64 = 0
  /// Bytes of the packets of receipts, by either channel.
  public var receiptBytesSent: UInt64 = 0
  /// How often the peer's address changed.
  public var migrations: UInt64 = 0

  public init() {}
}

/// The two channels of one session and what both ends do alike with them: packets out of the stream, datagrams sealed
/// and opened, receipts, retransmission, and the choice of TCP or UDP packet by packet. Which packets mean what is
/// the business of `ClientSession` and `ServerSession`.
///
/// No I/O and no clock. Touched only where its session is.
public final class Channel {
  var assembler = PacketAssembler(limit: WireLimits.maximumPacketBytesBeforeLogin)
  var window = MessageWindow()
  /// Messages that may be under way at a time; a server may tell its clients a smaller number.
  var windowMessages = WireLimits.windowMessages
  var outcomes = OutcomeQueue()
  var stream: [UInt8] = []

  var protection: (any DatagramProtection)?
  var phases = KeyPhases()
  /// Why there is no UDP any more.
  private(set) var udpEnd: UDPEnd?
  var forgeries = ForgeryAllowance()
  private(set) var isUDPEndNews = false
  var connectionId: UInt64 = 0
  /// Where datagrams go: proven, or for a client the server's address.
  var peer: PeerAddress?
  var path = PathState.off
  /// Bytes that may still go to `peer`, while it is not proven; nil: any number.
  var allowance: Int?
  /// The last authentic datagram came, and the last one left.
  var lastArrival = Instant(nanoseconds: 0)
  var lastDeparture = Instant(nanoseconds: 0)
  /// While the path was never proven, messages wait for it until then.
  var holdUntil = Instant(nanoseconds: 0)
  var counters = ChannelCounters()
  /// Messages that arrived at the peer by UDP and were taken, since the owner last looked.
  var accepted: [MessageKey] = []
  /// An application waits for its `send`: the datagram that empties the queue wants its receipt now.
  var isAwaited = false

  var sent = SentDatagrams()
  var redundancy = TailRedundancy()
  var received = ReceivedDatagrams()
  var replay = ReplayWindow()
  var receivingQuality = PathQuality()
  var highestReceived: UInt64?
  var lastFirstTransmission = Instant(nanoseconds: 0)
  var lastWanted = Instant(nanoseconds: 0)
  var escalationCheck: Instant?
  /// Since when the congestion window lets no message leave.
  var blockedSince: Instant?
  var scratch: [UInt8] = []
  /// Bytes that the datagram under way may have in all.
  var datagramLimit = WireLimits.maximumDatagramBytes

  init() { scratch.reserveCapacity(WireLimits.maximumDatagramBytes) }

  var rtt: RTTEstimator { sent.rtt }

  /// The session has UDP: messages wait up to `firstProbing` for the path to be proven.
  ///
  /// - Parameter seed: random, for the packet numbers that are left out.
  func startProbing(_ protection: any DatagramProtection, connectionId: UInt64, seed: UInt64, now: Instant) {
    self.protection = protection
    sent.beginSkipping(seed: seed)
    self.connectionId = connectionId
    path = .probing
    holdUntil = now + WireTimes.firstProbing
  }

  /// The session goes on by TCP alone; the keys are given back.
  func endUDP(_ reason: UDPEnd) {
    guard protection != nil else { return }
    protection = nil
    udpEnd = reason
    isUDPEndNews = true
    path = .off
    sent.abandonFlight()
    redundancy.stop()
    counters.messagesEscalated += UInt64(window.divertToTCP())
  }

  /// The path is proven both ways; for a server, from here.
  func pathProven(_ address: PeerAddress, now: Instant) {
    if path != .up { lastArrival = now }
    peer = address
    allowance = nil
    if path == .down { sent.abandonFlight() }
    sent.pathConfirmed()
    path = .up
  }

  /// Datagrams go to another address from now on, which need not be proven.
  func move(to address: PeerAddress) {
    if let peer { sent.pathChanged(isOtherMachine: peer.high != address.high || peer.low != address.low) }
    peer = address
    counters.migrations += 1
  }

  /// Datagrams go to the proven address again, which `move` left.
  func moveBack(to address: PeerAddress, now: Instant) {
    take(sent.pathRestored(now: now))
    peer = address
    counters.migrations += 1
  }

  /// Datagrams do not pass any more: everything goes by TCP until the path is proven again.
  func pathFails() {
    path = .down
    sent.abandonFlight()
    redundancy.stop()
    counters.messagesEscalated += UInt64(window.divertToTCP())
  }

  /// Counters with what the parts counted.
  func snapshot() -> ChannelCounters {
    var counters = counters
    counters.datagramsLost = sent.lostCount
    counters.datagramsSpurious = sent.spuriousCount
    counters.retransmissions = window.retransmissions
    counters.redundantCopies = redundancy.copies
    counters.messageBytesSent = window.bytesSent
    counters.messageBytesNeeded = window.bytesNeeded
    return counters
  }

  // MARK: - TCP

  /// Queues one packet for TCP.
  func writeStream(
    _ command: Command, flags: PacketHeader.Flags = [], sequence: UInt16 = 0, payload: (inout [UInt8]) -> Void
  ) {
    let before = stream.count
    PacketWriter.append(command, flags: flags, sequence: sequence, to: &stream, payload: payload)
    if command == .receipt { counters.receiptBytesSent += UInt64(stream.count - before) }
  }

  /// Answers a request with an error, also one whose command is unknown here.
  func writeError(_ refusal: Refusal, to header: PacketHeader) {
    PacketWriter.append(
      service: header.service, number: header.number, flags: [.response, .error], sequence: header.sequence,
      to: &stream, payload: refusal.append)
  }

  /// What is to be written to the socket, in order.
  public func takeStream() -> [UInt8] {
    defer { stream = [] }
    return stream
  }

  /// Hands a message over for sending; see `MessageWindow.insert`.
  func insert(_ key: MessageKey, _ message: EncodedMessage, byTCP: Bool) {
    window.insert(key, message, byTCP: byTCP, nextDatagram: sent.nextNumber)
  }

  // MARK: - Time

  /// When `expire` or `flush` is to be called next.
  func deadline(now: Instant) -> Instant {
    var next = min(outcomes.deadline ?? .never, escalationCheck ?? .never)
    if path != .off { next = min(next, received.deadline ?? .never) }
    if path == .up {
      next = min(next, sent.deadline ?? .never, sent.pacedUntil ?? .never, redundancy.due ?? .never)
    }
    if path == .probing, window.hasUDPWork { next = min(next, holdUntil) }
    if isUDPEndNews { next = now }
    next = min(next, phases.formerUntil ?? .never)
    return next
  }

  /// Lets time do its work: losses, probes, escalation.
  ///
  /// - Returns: true when the path went down by it, or UDP ended since the last call (`udpEnd`).
  func expire(
    now: Instant, floor: (MessageKey) -> UInt64, send: (Span<UInt8>, PeerAddress) -> Void
  ) -> Bool {
    escalateStale(now: now)
    if phases.formerExpires(now: now) { protection?.forgetFormerKey() }
    if isUDPEndNews {
      isUDPEndNews = false
      return true
    }
    guard path == .up else { return false }
    let (verdict, probe) = sent.expire(now: now)
    take(verdict)
    guard probe else { return false }
    counters.probeTimeouts += 1
    if sent.probeTimeouts >= WireTimes.downProbeTimeouts {
      pathFails()
      return true
    }
    // From the second on two, so that one loss does not take the path down (RFC 9002, section 6.2.4).
    for _ in 0..<min(sent.probeTimeouts, 2) { sendProbe(now: now, floor: floor, send: send) }
    return false
  }

  private func escalateStale(now: Instant) {
    guard let check = escalationCheck, check <= now else { return }
    let escalation = sent.rtt.patience(WireTimes.escalation)
    let stale = window.stale(since: escalation, now: now)
    for key in stale where window.escalate(key) { counters.messagesEscalated += 1 }
    if let since = blockedSince, since + escalation <= now, path == .up {
      // Datagrams that are not heard of fill the congestion window: what waits would wait for the path to go down.
      blockedSince = nil
      counters.messagesEscalated += UInt64(window.divertToTCP())
    }
    if path == .up { window.assistByUDP(since: sent.rtt.patience(WireTimes.assist), now: now) }
    escalationCheck = window.count > 0 ? now + .milliseconds(250) : nil
  }
}

extension Command {
  /// A datagram with such a packet wants a receipt, at some time.
  var isEliciting: Bool {
    switch self {
    case .receipt, .pathChallenge, .pathResponse: false
    default: true
    }
  }
}
