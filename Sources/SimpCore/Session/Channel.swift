/// How a path stands, as one end sees it.
public enum PathState: String, Hashable, Sendable {
  /// No UDP in this session.
  case off
  /// Never proven in this session.
  case probing
  case up
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
  public var datagramsLost: UInt64 = 0
  public var datagramsSpurious: UInt64 = 0
  public var messagesByUDP: UInt64 = 0
  public var messagesByTCP: UInt64 = 0
  public var messagesEscalated: UInt64 = 0
  public var retransmissions: UInt64 = 0
  public var probeTimeouts: UInt64 = 0

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
  var outcomes = OutcomeQueue()
  private(set) var stream: [UInt8] = []

  var protection: (any DatagramProtection)?
  var connectionId: UInt64 = 0
  /// Where datagrams go: proven, or for a client the server's address.
  var peer: PeerAddress?
  private(set) var path = PathState.off
  /// While the path was never proven, messages wait for it until then.
  private(set) var holdUntil = Instant(nanoseconds: 0)
  private(set) var counters = ChannelCounters()
  /// Messages that arrived at the peer by UDP and were taken, since the owner last looked.
  private(set) var accepted: [MessageKey] = []
  /// An application waits for its `send`: the datagram that empties the queue wants its receipt now.
  var isAwaited = false

  var sent = SentDatagrams()
  var received = ReceivedDatagrams()
  private var replay = ReplayWindow()
  private var highestReceived: UInt64?
  private var lastFirstTransmission = Instant(nanoseconds: 0)
  private var lastWanted = Instant(nanoseconds: 0)
  private var escalationCheck: Instant?
  private var scratch: [UInt8] = []

  init() { scratch.reserveCapacity(WireLimits.maximumDatagramBytes) }

  var rtt: RTTEstimator { sent.rtt }

  /// The session has UDP: messages wait up to `firstProbing` for the path to be proven.
  func startProbing(_ protection: any DatagramProtection, connectionId: UInt64, now: Instant) {
    self.protection = protection
    self.connectionId = connectionId
    path = .probing
    holdUntil = now + WireTimes.firstProbing
  }

  /// The path is proven both ways; for a server, from here.
  func pathProven(_ address: PeerAddress) {
    peer = address
    if path == .down { sent.abandonFlight() }
    path = .up
  }

  /// Counters with what the parts counted.
  func snapshot() -> ChannelCounters {
    var counters = counters
    counters.datagramsLost = sent.lostCount
    counters.datagramsSpurious = sent.spuriousCount
    counters.retransmissions = window.retransmissions
    return counters
  }

  // MARK: - TCP

  /// Queues one packet for TCP.
  func writeStream(
    _ command: Command, flags: PacketHeader.Flags = [], sequence: UInt16 = 0, payload: (inout [UInt8]) -> Void
  ) {
    PacketWriter.append(command, flags: flags, sequence: sequence, to: &stream, payload: payload)
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

  // MARK: - Receiving datagrams

  /// What an authentic datagram was.
  struct Arrival {
    /// Its number is the highest so far: its address is the newest.
    var isNewest: Bool
    /// Not all of its messages were taken.
    var isAnswered: Bool
  }

  /// Opens a datagram and hands its packets to `handle`, which returns whether the packet was taken (held or done,
  /// not answered with a refusal).
  ///
  /// - Returns: nil for what is dropped in silence: another connection id, a bad tag, a replay.
  func receive(
    datagram: inout MutableSpan<UInt8>, now: Instant, handle: (PacketHeader, Span<UInt8>) throws(WireError) -> Bool
  ) -> Arrival? {
    guard let protection, let header = DatagramHeader(reading: datagram.span), header.connectionId == connectionId
    else { return nil }
    guard protection.open(&datagram, packetNumber: header.packetNumber) else {
      counters.datagramsForged += 1
      return nil
    }
    guard replay.insert(header.packetNumber) else {
      counters.datagramsReplayed += 1
      return nil
    }
    counters.datagramsReceived += 1
    let isNewest = header.packetNumber > highestReceived ?? 0 || highestReceived == nil
    if isNewest { highestReceived = header.packetNumber }
    let plain = datagram.span.extracting(
      WireLimits.datagramHeaderBytes..<datagram.count - WireLimits.datagramTagBytes)
    let content = unpack(plain, handle: handle)
    received.insert(
      header.packetNumber, eliciting: content.eliciting, wanted: content.wanted, answered: content.answered, now: now)
    return Arrival(isNewest: isNewest, isAnswered: content.answered)
  }

  private func unpack(
    _ plain: Span<UInt8>, handle: (PacketHeader, Span<UInt8>) throws(WireError) -> Bool
  ) -> (eliciting: Bool, wanted: Bool, answered: Bool) {
    var content = (eliciting: false, wanted: false, answered: false)
    var offset = 0
    var isMalformed = false
    while offset < plain.count {
      let rest = plain.extracting(offset..<plain.count)
      guard rest.count >= WireLimits.headerBytes, let header = try? PacketHeader(reading: rest, limit: rest.count)
      else {
        // The rest cannot be read. It arrived all the same, and sending it again would not mend it.
        isMalformed = true
        break
      }
      let length = Int(header.length)
      if header.command?.isEliciting ?? true { content.eliciting = true }
      if header.flags.contains(.receiptWanted) { content.wanted = true }
      do throws(WireError) {
        if try !handle(header, rest.extracting(WireLimits.headerBytes..<length)) { content.answered = true }
      } catch {
        isMalformed = true
      }
      offset += length
    }
    if isMalformed {
      // What was in it and is missed is left to TCP: the receipt says that not all was taken.
      counters.datagramsMalformed += 1
      content.answered = true
    }
    return content
  }

  // MARK: - Receipts of what was sent

  /// Takes part (a) of a receipt.
  ///
  /// - Throws: `malformed` when it names what never left.
  func receive(_ receipt: DatagramReceipt, byUDP: Bool, now: Instant) throws(WireError) {
    take(try sent.receive(receipt, byUDP: byUDP, now: now))
  }

  /// The messages that arrived since the last call.
  func takeAccepted() -> [MessageKey] {
    defer { accepted.removeAll(keepingCapacity: true) }
    return accepted
  }

  private func take(_ verdict: SentDatagrams.Verdict) {
    for (key, number) in verdict.taken where window.accept(key, datagram: number) { accepted.append(key) }
    for (key, number) in verdict.answered { window.markAnswered(key, datagram: number) }
    for (key, number) in verdict.lost { window.markLost(key, datagram: number) }
  }

  // MARK: - Time

  /// When `expire` or `flush` is to be called next.
  func deadline(now: Instant) -> Instant {
    var next = min(outcomes.deadline ?? .never, escalationCheck ?? .never)
    if path != .off { next = min(next, received.deadline ?? .never) }
    if path == .up { next = min(next, sent.deadline ?? .never) }
    if path == .probing, window.hasUDPWork { next = min(next, holdUntil) }
    return next
  }

  /// Lets time do its work: losses, probes, escalation.
  ///
  /// - Returns: true when the path went down by it.
  func expire(
    now: Instant, floor: (MessageKey) -> UInt64, send: (Span<UInt8>, PeerAddress) -> Void
  ) -> Bool {
    escalateStale(now: now)
    guard path == .up else { return false }
    let (verdict, probe) = sent.expire(now: now)
    take(verdict)
    guard probe else { return false }
    counters.probeTimeouts += 1
    if sent.probeTimeouts >= WireTimes.downProbeTimeouts {
      path = .down
      sent.abandonFlight()
      counters.messagesEscalated += UInt64(window.divertToTCP())
      return true
    }
    sendProbe(now: now, floor: floor, send: send)
    return false
  }

  private func escalateStale(now: Instant) {
    guard let check = escalationCheck, check <= now else { return }
    for key in window.stale(since: WireTimes.escalation, now: now) where window.escalate(key) {
      counters.messagesEscalated += 1
    }
    if path == .up { window.assistByUDP(since: WireTimes.assist, now: now) }
    escalationCheck = window.count > 0 ? now + .milliseconds(250) : nil
  }

  // MARK: - Sending

  /// Sends what is due and what fits: datagrams through `send`, the stream into `takeStream()`.
  ///
  /// - Parameters:
  ///   - streamRoom: bytes that the socket's queue may still take.
  ///   - floor: the floor of a message's conversation, for those whose floor is written anew.
  func flush(
    now: Instant, streamRoom: Int, floor: (MessageKey) -> UInt64, send: (Span<UInt8>, PeerAddress) -> Void
  ) {
    switch path {
    case .up: sendMessages(now: now, floor: floor, send: send)
    case .probing where now < holdUntil: break
    case .probing, .down, .off:
      if window.hasUDPWork { counters.messagesEscalated += UInt64(window.divertToTCP()) }
    }
    while stream.count < streamRoom, let (key, message) = window.sendByTCP(now: now) {
      message.append(to: &stream, floor: floor(key))
      counters.messagesByTCP += 1
      if escalationCheck == nil { escalationCheck = now + WireTimes.assist }
    }
    flushReceipts(now: now, send: send)
  }

  private func flushReceipts(now: Instant, send: (Span<UInt8>, PeerAddress) -> Void) {
    let datagramsDue = received.deadline.map { $0 <= now } ?? false
    if datagramsDue, path == .up, let peer {
      startDatagram()
      appendReceipt(now: now)
      finishDatagram(SentDatagram(eliciting: false, sent: now), to: peer, send: send)
    }
    let outcomesDue = outcomes.deadline.map { $0 <= now } ?? false
    guard outcomesDue || (datagramsDue && path != .up) else { return }
    repeat {
      var receipt = Receipt(outcomes: outcomes.take(now: now))
      if path != .up, received.hasNews { receipt.datagrams = received.takeReceipt(now: now) }
      writeStream(.receipt, payload: receipt.append)
    } while !outcomes.isEmpty
  }

  /// Writes all outcomes that wait for their time.
  func writeOutcomes(now: Instant) {
    while !outcomes.isEmpty {
      writeStream(.receipt, payload: Receipt(outcomes: outcomes.take(now: now)).append)
    }
  }

  private func sendMessages(
    now: Instant, floor: (MessageKey) -> UInt64, send: (Span<UInt8>, PeerAddress) -> Void
  ) {
    guard let peer else { return }
    while sent.hasRoom, let first = window.nextForUDP(room: WireLimits.maximumDatagramPlaintextBytes) {
      var datagram = SentDatagram(eliciting: true, sent: now)
      datagram.number = sent.nextNumber
      startDatagram()
      if received.hasNews { appendReceipt(now: now) }
      let firstPacket = scratch.count
      var isRetransmission = false
      var hasFirst = false
      var next = window.nextForUDP(room: room) ?? first
      repeat {
        if let (message, isFirst) = window.sendByUDP(next, datagram: datagram.number, now: now) {
          message.append(to: &scratch, floor: floor(next))
          datagram.messages.append(next)
          counters.messagesByUDP += 1
          if isFirst { hasFirst = true } else { isRetransmission = true }
        }
        guard let following = window.nextForUDP(room: room) else { break }
        next = following
      } while true
      datagram.wanted = wantsReceipt(isRetransmission: isRetransmission, hasFirst: hasFirst, now: now)
      if datagram.wanted { PacketWriter.wantReceipt(in: &scratch, packetAt: firstPacket) }
      if hasFirst { lastFirstTransmission = now }
      if escalationCheck == nil { escalationCheck = now + WireTimes.escalation }
      finishDatagram(datagram, to: peer, send: send)
    }
  }

  private func wantsReceipt(isRetransmission: Bool, hasFirst: Bool, now: Instant) -> Bool {
    var wanted = isRetransmission
    if hasFirst, lastFirstTransmission + WireTimes.idleBeforeReceiptWanted <= now { wanted = true }
    if isAwaited, !window.hasUDPWork {
      wanted = true
      isAwaited = false
    }
    if window.count > WireLimits.windowMessages / 2 || sent.isHalfFull, lastWanted + sent.rtt.smoothed / 2 <= now {
      wanted = true
    }
    if wanted { lastWanted = now }
    return wanted
  }

  private func sendProbe(
    now: Instant, floor: (MessageKey) -> UInt64, send: (Span<UInt8>, PeerAddress) -> Void
  ) {
    guard let peer else { return }
    var datagram = SentDatagram(eliciting: true, sent: now)
    datagram.number = sent.nextNumber
    datagram.wanted = true
    startDatagram()
    if received.hasNews { appendReceipt(now: now) }
    let firstPacket = scratch.count
    for key in sent.oldestMessages(limit: 64) {
      guard let entry = window.entries[key], entry.state == .flying, entry.message.bytes.count <= room else { continue }
      guard let (message, _) = window.sendByUDP(key, datagram: datagram.number, now: now) else { continue }
      message.append(to: &scratch, floor: floor(key))
      datagram.messages.append(key)
      counters.messagesByUDP += 1
    }
    if datagram.messages.isEmpty { PacketWriter.append(.ping, to: &scratch) { _ in } }
    PacketWriter.wantReceipt(in: &scratch, packetAt: firstPacket)
    finishDatagram(datagram, to: peer, send: send)
  }

  /// Sends one control packet by UDP, alone or padded to the full size, to any address.
  func sendControl(
    _ commands: [(Command, UInt64)], padded: Bool, eliciting: Bool, to address: PeerAddress, now: Instant,
    send: (Span<UInt8>, PeerAddress) -> Void
  ) {
    guard protection != nil else { return }
    startDatagram()
    let start = scratch.count
    for (index, (command, token)) in commands.enumerated() {
      let isLast = index == commands.count - 1
      PacketWriter.append(command, to: &scratch) { payload in
        payload.appendField(1, fixed64: token)
        guard padded, isLast else { return }
        // The padding field takes a tag byte and two length bytes besides its content.
        let padding = WireLimits.maximumDatagramBytes - WireLimits.datagramTagBytes - payload.count - 3
        payload.appendField(2, bytes: [UInt8](repeating: 0, count: padding))
      }
    }
    if eliciting { PacketWriter.wantReceipt(in: &scratch, packetAt: start) }
    var datagram = SentDatagram(eliciting: eliciting, sent: now)
    datagram.wanted = eliciting
    finishDatagram(datagram, to: address, send: send)
  }

  /// Echoes a ping by UDP.
  func sendPong(_ token: UInt64, to address: PeerAddress, now: Instant, send: (Span<UInt8>, PeerAddress) -> Void) {
    startDatagram()
    if received.hasNews { appendReceipt(now: now) }
    PacketWriter.append(.ping, flags: .response, to: &scratch) { $0.appendField(1, fixed64: token) }
    finishDatagram(SentDatagram(eliciting: false, sent: now), to: address, send: send)
  }

  // MARK: - Building one datagram

  private var room: Int { WireLimits.maximumDatagramBytes - WireLimits.datagramTagBytes - scratch.count }

  private func startDatagram() {
    scratch.removeAll(keepingCapacity: true)
    DatagramHeader(connectionId: connectionId, packetNumber: sent.nextNumber).append(to: &scratch)
  }

  private func appendReceipt(now: Instant) {
    guard let datagrams = received.takeReceipt(now: now) else { return }
    PacketWriter.append(.receipt, to: &scratch, payload: Receipt(datagrams: datagrams).append)
  }

  private func finishDatagram(
    _ datagram: SentDatagram, to address: PeerAddress, send: (Span<UInt8>, PeerAddress) -> Void
  ) {
    guard let protection else { preconditionFailure("a datagram before the keys") }
    var datagram = datagram
    datagram.number = sent.takeNumber()
    protection.seal(&scratch, packetNumber: datagram.number)
    datagram.bytes = scratch.count
    sent.insert(datagram)
    counters.datagramsSent += 1
    let sealed = scratch
    send(sealed.span, address)
  }
}

extension SentDatagram {
  init(eliciting: Bool, sent: Instant) {
    self.init(number: 0, sent: sent, bytes: 0, eliciting: eliciting, wanted: false, messages: [])
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
