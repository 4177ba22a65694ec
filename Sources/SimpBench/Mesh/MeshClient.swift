internal import SimpConnection
internal import SimpCore
internal import SimpIO

/// One user of a mesh: the client core with its sockets, driven on the mesh's loop as the library drives it, but
/// without what the library has between threads and tasks. On that loop only.
final class MeshClient {
  private enum State { case idle, waiting, connecting, online, over }

  let number: Int
  let user: String
  private unowned let mesh: Mesh
  private let outbox: Outbox
  private let inbound = InboundMessages(roomMessages: WireLimits.windowMessages)
  private var state = State.idle
  private var stream: Stream?
  private var socket: DatagramSocket?
  private var session: ClientSession?
  private var timer: LoopTimer?
  private var backoff = Backoff(first: .milliseconds(50), last: .seconds(10))
  private var sessionBegan: Instant?
  /// The next attempt, while waiting for it.
  private var due = Instant.never
  private var earlier = ChannelCounters()
  private var isLeaving = false
  var isDirty = false

  /// BOUND: bytes that wait in the stream's queue before messages wait in the window instead.
  private static let streamQueueBytes = 256 * 1024

  init(number: Int, user: String, mesh: Mesh) {
    self.number = number
    self.user = user
    self.mesh = mesh
    outbox = Outbox(id: RandomBytes.uint64() | 1, limitMessages: .max, limitBytes: .max)
  }

  var isLoggedIn: Bool { session?.isActive ?? false }
  var isPathUp: Bool { session?.path == .up }
  /// Messages without a final receipt.
  var unfinished: Int { outbox.count }
  /// Over all its sessions.
  var counters: ChannelCounters {
    var counters = earlier
    if let session { counters.add(session.counters) }
    return counters
  }

  // MARK: - Connecting

  func connect() {
    guard state == .idle || state == .waiting else { return }
    state = .connecting
    due = .never
    let pipe: any BytePipe
    do throws(TLSConfigurationError) {
      pipe = try mesh.makePipe()
    } catch {
      return mesh.failed(SIMPError(.invalidTrust, "\(error)"))
    }
    stream = Stream.connect(loop: mesh.loop, to: mesh.server, pipe: pipe, timeout: .seconds(30)) { [weak self] result in
      guard let self, state == .connecting else { return }
      switch result {
      case .success(let stream): logIn(over: stream)
      case .failure(let error) where error.isUntrusted || error.isProtocolError:
        mesh.failed(SIMPError(.untrusted, error.detail ?? "\(error)"))
      case .failure(let error): lost(SIMPError(.connectFailed, "\(error)"))
      }
    }
  }

  private func logIn(over stream: Stream) {
    var login = Login()
    login.token = mesh.token(for: user)
    login.software = "simp-bench"
    login.receiveMessages = UInt32(WireLimits.windowMessages)
    login.receiveBytes = UInt64(WireLimits.windowBytes)
    if mesh.usesUDP { login.ciphers = AEADProtection.preference }
    self.stream = stream
    session = ClientSession(login, outbox: outbox, inbound: inbound, now: mesh.loop.now)
    state = .online
    stream.onBytes = { [unowned self] bytes in
      session?.receive(stream: bytes, now: mesh.loop.now)
      mesh.markDirty(self)
    }
    stream.onClose = { [unowned self] error in
      handleEvents()
      if state == .online {
        lost(SIMPError(.connectionLost, error.map { "\($0)" } ?? "the server closed the connection"))
      }
    }
    stream.onDrain = { [unowned self] in mesh.markDirty(self) }
    mesh.markDirty(self)
  }

  private func startUDP(_ reply: LoginReply) {
    guard let session, let stream else { return }
    var secret = session.takeUDPSecret()
    defer { secret.wipe() }
    guard mesh.usesUDP, reply.udpPort > 0, reply.udpPort <= 65535, secret.count == 32,
      AEADProtection.isKnown(reply.cipher)
    else { return }
    var address = stream.remoteAddress
    address.port = UInt16(reply.udpPort)
    do throws(IOError) {
      let socket = try DatagramSocket(loop: mesh.loop, bind: .any(address.family, port: 0), bufferBytes: 1 << 20)
      socket.onReceive { [unowned self] datagram, _ in
        self.session?.receive(datagram: &datagram, now: mesh.loop.now)
        mesh.markDirty(self)
      }
      self.socket = socket
      let protection = AEADProtection(secret: secret, cipher: reply.cipher, isServer: false)
      session.startUDP(protection, server: address, seed: RandomBytes.uint64(), now: mesh.loop.now)
    } catch {
      mesh.failed(SIMPError(.system, "\(error)"))
    }
  }

  private func lost(_ error: SIMPError, retryAfter: Interval = .zero, spread: Interval = .zero) {
    if isLeaving { return close() }
    let now = mesh.loop.now
    if let began = sessionBegan { backoff.sessionLasted(now - began) }
    dropSession(now: now)
    state = .waiting
    due = now + backoff.next(retryAfter: retryAfter, spread: spread, random: RandomBytes.uint64())
    mesh.wasLost(error)
    arm(due)
  }

  private func dropSession(now: Instant) {
    if let session {
      earlier.add(session.counters)
      session.connectionClosed(now: now)
    }
    sessionBegan = nil
    session = nil
    stream?.close()
    stream = nil
    socket?.close()
    socket = nil
  }

  // MARK: - Work

  /// Hands a message over for sending.
  func post(_ text: String, to user: String, now: Instant) {
    do throws(Outbox.Full) {
      _ = try outbox.append(MessageContent(text: text, time: EventLoop.wallClockMilliseconds), to: user, now: now)
    } catch {
      preconditionFailure("the outbox refuses a measuring message: \(error)")
    }
    session?.wake(isAwaited: false)
    mesh.markDirty(self)
  }

  /// The work of a turn, once for all that arrived in it.
  func work() {
    if state == .waiting, due <= mesh.loop.now { connect() }
    guard state == .online else { return }
    handleEvents()
    guard state == .online, let session, let stream else { return }
    let now = mesh.loop.now
    let streamRoom = max(0, Self.streamQueueBytes - stream.pendingBytes)
    session.flush(now: now, streamRoom: streamRoom) { datagram, address in socket?.send(datagram, to: address) }
    let bytes = session.takeStream()
    if !bytes.isEmpty { stream.write(bytes) }
    handleEvents()
    if state == .online { arm(session.deadline(now: now)) }
  }

  private func arm(_ instant: Instant) {
    if timer == nil { timer = mesh.loop.makeTimer { [unowned self] in mesh.markDirty(self) } }
    if instant == .never { timer?.disarm() } else { timer?.arm(at: instant) }
  }

  private func handleEvents() {
    while state == .online, let session {
      let events = session.takeEvents()
      if events.isEmpty { return }
      for event in events { handle(event, of: session) }
    }
  }

  private func handle(_ event: ClientEvent, of session: ClientSession) {
    switch event {
    case .message(let message): take(message, of: session)
    case .finished(_, let state, _, _, _): mesh.finished(state)
    case .later: mesh.wasRefusedForNow()
    case .loggedIn(let reply):
      sessionBegan = mesh.loop.now
      startUDP(reply)
      mesh.loggedIn(self, reply, tls: stream?.agreement?.cipher)
    case .ended where isLeaving: close()
    case .ended(let refusal):
      let error = SIMPError(refusal, hadSession: sessionBegan != nil)
      if refusal.retryAfterMilliseconds > 0 || refusal.isPassing {
        lost(
          error, retryAfter: .milliseconds(Int64(refusal.retryAfterMilliseconds)),
          spread: .milliseconds(Int64(refusal.retrySpreadMilliseconds)))
      } else {
        mesh.failed(error)
      }
    case .failed(let reason): lost(SIMPError(.connectionLost, reason))
    default: break
    }
  }

  /// The application takes a message at once.
  private func take(_ message: IncomingMessage, of session: ClientSession) {
    inbound.markTaken(from: message.from, device: message.device, order: message.order)
    session.acknowledge(from: message.from, device: message.device, order: message.order, now: mesh.loop.now)
    mesh.arrived(message, at: self)
  }

  // MARK: - The end

  /// Says goodbye, and ends when the server has answered.
  func logOut() {
    isLeaving = true
    guard state == .online, let session, session.isActive else { return close() }
    session.logout(now: mesh.loop.now)
    mesh.markDirty(self)
  }

  func close() {
    guard state != .over else { return }
    dropSession(now: mesh.loop.now)
    state = .over
    timer?.close()
    timer = nil
  }
}
