@testable import SimpCore

/// A client with its outbox and its application, and what both are watched for whatever a server sends.
final class ClientRig {
  private(set) var session: ClientSession
  var now = Instant(nanoseconds: 1_000_000_000)
  private let outbox = Outbox(id: 5, limitMessages: 64)
  private let inbound = InboundMessages(roomMessages: 16)
  private(set) var challenge: UInt64?
  private var open: Set<MessageKey> = []
  private var shown: Set<Place> = []
  private var lastInOrder: [SenderDevice: UInt64] = [:]
  private var untaken: [IncomingMessage] = []
  private var isLoggedIn = false
  private(set) var isOver = false
  private var lastNumber: UInt64?
  private var failure: Violation?

  private struct Place: Hashable {
    var sender: SenderDevice
    var order: UInt64
  }

  init() { session = Self.session(outbox, inbound, now) }

  private static func session(_ outbox: Outbox, _ inbound: InboundMessages, _ now: Instant) -> ClientSession {
    var login = Login()
    login.token = "good"
    login.ciphers = [1]
    let limits = KeyLimits(phaseDatagrams: 3, sealedDatagrams: 14, forgedDatagrams: 4)
    return ClientSession(login, outbox: outbox, inbound: inbound, keyLimits: limits, now: now)
  }

  // MARK: - What a server does

  func receive(stream: [UInt8]) throws {
    session.receive(stream: stream.span, now: now)
    try look()
  }

  func receive(datagram: [UInt8]) throws {
    var datagram = datagram
    var span = datagram.mutableSpan
    session.receive(datagram: &span, now: now)
    try look()
  }

  // MARK: - What the application does

  private static let short = MessageContent(text: "hello")
  /// Fits no datagram.
  private static let long = MessageContent(text: String(repeating: "x", count: 1500))

  func send(to user: String, isLong: Bool) throws {
    guard outbox.count < 64 else { return }
    let key = try outbox.append(isLong ? Self.long : Self.short, to: user, now: now).key
    try require(open.insert(key).inserted, "\(key) is used twice")
    session.wake(isAwaited: true)
  }

  /// Asks for something, or says goodbye.
  func ask(_ kind: UInt8) {
    switch kind % 5 {
    case 0: _ = session.ask(.renew(token: "good"))
    case 1: _ = session.ask(.kick(user: "bob", reason: ""))
    case 2: _ = session.ask(.counters)
    case 3: session.ping(7, via: .udp, now: now) { datagram, _ in sent(datagram) }
    default: session.logout(now: now)
    }
  }

  /// Takes the oldest message it was shown.
  func take() throws {
    guard !untaken.isEmpty else { return }
    let message = untaken.removeFirst()
    inbound.markTaken(from: message.from, device: message.device, order: message.order)
    session.acknowledge(from: message.from, device: message.device, order: message.order, now: now)
  }

  func reconnect() throws {
    session.connectionClosed(now: now)
    session = Self.session(outbox, inbound, now)
    (isLoggedIn, isOver, lastNumber, challenge) = (false, false, nil, nil)
  }

  func flush() throws {
    // What a turn makes due, the next ones do: gaps that were waited for go one a turn. A loop that spins never ends.
    var turns = 0
    repeat {
      try require(turns < 64, "time stands still")
      session.flush(now: now, streamRoom: 1 << 20) { datagram, _ in sent(datagram) }
      try look()
      turns += 1
    } while session.deadline(now: now) <= now
  }

  private func sent(_ datagram: Span<UInt8>) {
    do {
      let number = try OpenProtection.packets(in: datagram, fromServer: false) { header, payload in
        if header.command == .pathChallenge { challenge = try TokenPayload.read(payload) }
        if header.command == .message { try check(payload) }
      }
      try require(lastNumber.map { number > $0 } ?? true, "packet number \(number) after \(lastNumber ?? 0)")
      lastNumber = number
    } catch {
      failure = failure ?? Violation(description: "sent by UDP: \(error)")
    }
  }

  /// What a server asks of each message.
  private func check(_ payload: Span<UInt8>) throws {
    let fields = try MessageFields(reading: payload)
    try fields.checkFromClient(payload)
    try require(fields.deviceNumber == outbox.deviceNumber, "device \(fields.deviceNumber)")
    try require(fields.order - fields.floor < WireLimits.orderWindow, "outside of the window")
  }

  // MARK: - What it is watched for

  private func look() throws {
    if let failure { throw failure }
    let stream = session.takeStream()
    try Packets.split(stream.span) { header, payload in
      if header.command == .message { try check(payload) }
    }
    for event in session.takeEvents() { try look(at: event) }
    try require(outbox.count == open.count, "\(outbox.count) in the outbox, \(open.count) are not finished")
    try require(session.channel.window.count <= open.count, "more is under way than is open")
    try require(session.channel.received.ranges.count <= WireLimits.maximumReceiptRanges, "ranges of datagrams")
  }

  private func look(at event: ClientEvent) throws {
    switch event {
    case .loggedIn(let reply):
      try require(!isLoggedIn && !isOver, "logged in twice")
      isLoggedIn = true
      guard reply.udpPort > 0 else { return }
      let server = PeerAddress.v4(127, 0, 0, 9, port: UInt16(reply.udpPort))
      if reply.connectionId == ServerRig.connectionId {
        session.startUDP(OpenProtection(isServer: false), server: server, seed: 7, now: now)
      }
    case .message(let message):
      try show(message)
    case .accepted(let key, _, _):
      try require(open.contains(key), "\(key) is accepted, and it is not open")
    case .later(let key, _, _):
      try require(open.contains(key), "\(key) is put off, and it is not open")
    case .finished(let key, _, _, _, _):
      try require(open.remove(key) != nil, "\(key) is finished twice, or was never sent")
    case .ended, .failed:
      try require(!isOver, "over twice")
      isOver = true
    case .pathUp, .pathDown, .pong, .answered, .followed:
      try require(isLoggedIn, "\(event) before the login")
    }
  }

  private func show(_ message: IncomingMessage) throws {
    let sender = SenderDevice(user: message.from, device: message.device)
    try require(shown.insert(Place(sender: sender, order: message.order)).inserted, "\(message.order) is shown twice")
    let last = lastInOrder[sender] ?? 0
    try require(message.isLate == (message.order < last), "\(message.order) of \(sender) after \(last)")
    lastInOrder[sender] = max(last, message.order)
    untaken.append(message)
    try require(untaken.count <= 2 * 16 + 1024, "\(untaken.count) messages are held for the application")
  }
}
