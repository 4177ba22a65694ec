internal import SimpCore
internal import SimpIO
internal import SimpSupport

/// The thread at the door: takes TCP connections, shakes hands on those of TLS, and hands each that is through to a
/// reactor, one after the other. It yields the processor to the reactors: whatever comes to the door, the datagrams of
/// those inside go first.
///
/// `@unchecked Sendable`: after `init` everything is touched on the loop's thread only; other threads call `perform`.
final class Acceptor: @unchecked Sendable {
  /// By how much it yields (`setpriority(2)`): a tenth of a core is left to it when reactors take all they can.
  static let niceness: Int32 = 10

  /// Of those that wait for their handshake and have gone, so many are let go in a turn.
  private static let goneInATurn = 64

  /// A connection that has not shaken hands.
  private struct Guest {
    let stream: Stream
    let since: Instant
    /// Why its login will be refused.
    let refusal: Refusal?
    /// Ends its time.
    let timer: LoopTimer
  }

  let loop: EventLoop
  private let shared: ServerShared
  private var listener: StreamListener?
  // BOUND: `waitingConnections` of the limits.
  private var guests: [UInt64: Guest] = [:]
  /// The same, by where they come from.
  private var waiting = WaitingRoom()
  /// Those of them whose handshake has to wait.
  private var greetings = GreetingLine()
  private var greetingTimer: LoopTimer!
  private var lastGuest: UInt64 = 0
  private var nextReactor = 0

  init(shared: ServerShared) throws(IOError) {
    self.shared = shared
    loop = try EventLoop()
  }

  /// Runs `body` on the acceptor's thread.
  func perform(_ body: @escaping @Sendable (Acceptor) -> Void) {
    loop.execute { body(self) }
  }

  /// Opens the port. On the loop.
  ///
  /// - Returns: the port in force.
  func open(_ address: PeerAddress) throws(IOError) -> UInt16 {
    greetingTimer = loop.makeTimer { [unowned self] in self.greetNext() }
    let makePipe: () -> any BytePipe = { [shared] in
      if let tls = shared.tls { tls.makePipe() } else { PlainPipe() }
    }
    let listener = try StreamListener(loop: loop, address: address, makePipe: makePipe) { [unowned self] stream, peer in
      self.accept(stream, from: peer)
    }
    self.listener = listener
    return listener.localAddress.port
  }

  /// Takes nobody any more; those in the middle of a handshake are let go. On the loop.
  func stop() {
    listener?.close()
    listener = nil
    for id in guests.keys { leave(id)?.stream.close() }
  }

  // MARK: - Guests

  private func accept(_ stream: Stream, from peer: PeerAddress) {
    var refusal: Refusal?
    switch shared.admission.enter(peer) {
    case .admitted: break
    case .told(let reason):
      shared.counters.connectionsRefused.add()
      refusal = reason
    case .dropped:
      shared.counters.connectionsRefused.add()
      return stream.close()
    }
    stream.onGone = { [shared] in shared.admission.leave(peer) }
    lastGuest += 1
    let (id, now, source) = (lastGuest, loop.now, PeerSource(peer))
    let timer = loop.makeTimer { [unowned self] in
      self.shared.counters.loginsTimedOut.add()
      self.leave(id)?.stream.close()
    }
    guests[id] = Guest(stream: stream, since: now, refusal: refusal, timer: timer)
    timer.arm(at: now + shared.limits.session.loginTime)
    waiting.append(id, from: source)
    displace(for: id, from: source)
    guard guests[id] != nil else { return }
    if shared.tls != nil { stream.mayGreet = { [unowned self] in self.mayGreet(id, from: source) } }
    stream.onOpen = { [unowned self] in self.handOver(id) }
    stream.onClose = { [unowned self] error in self.failed(id, from: peer, error) }
  }

  private func displace(for newcomer: UInt64, from source: PeerSource) {
    // BOUND: connections that have not shaken hands.
    guard waiting.count > shared.limits.waitingConnections,
      let id = waiting.displace(for: newcomer, from: source, now: loop.now)
    else { return }
    shared.counters.connectionsDisplaced.add()
    leave(id)?.stream.close()
  }

  private func leave(_ id: UInt64) -> Guest? {
    waiting.remove(id)
    greetings.remove(id)
    let guest = guests.removeValue(forKey: id)
    guest?.timer.close()
    return guest
  }

  private func failed(_ id: UInt64, from peer: PeerAddress, _ error: IOError?) {
    leave(id)?.stream.close()
    guard let error, error.isProtocolError || error.isUntrusted else { return }
    shared.counters.handshakesFailed.add()
    shared.log.debug("tls failed", ["address": peer, "reason": error.detail ?? "\(error)"])
  }

  private func handOver(_ id: UInt64) {
    guard let guest = leave(id) else { return }
    if let agreement = guest.stream.agreement {
      shared.counters.handshakes.add()
      if agreement.isResumed { shared.counters.handshakesResumed.add() }
    }
    let reactors = shared.all
    guard !reactors.isEmpty, let detached = guest.stream.detach() else { return guest.stream.close() }
    nextReactor = (nextReactor + 1) % reactors.count
    let (since, refusal) = (guest.since, guest.refusal)
    reactors[nextReactor].perform { $0.adopt(detached, since: since, refusal: refusal) }
  }

  // MARK: - Handshakes

  /// The first message of a handshake is there: whether it is answered now, or later.
  private func mayGreet(_ id: UInt64, from source: PeerSource) -> Bool {
    waiting.markSpoken(id)
    guard !greetings.arrive(id, from: source, now: loop.now, take: shared.admission.handshake) else {
      waiting.markAnswered(id, now: loop.now)
      return true
    }
    shared.counters.handshakesDelayed.add()
    greetingTimer.arm(at: greetings.due)
    return false
  }

  private func greetNext() {
    // BOUND: a turn. Who went away while it waited costs no handshake; a crowd that comes again and again would have the
    // server work for those who went, and nobody would be in before his patience ends.
    for _ in 0..<Self.goneInATurn {
      guard let id = greetings.next(now: loop.now, take: shared.admission.handshake), let stream = guests[id]?.stream
      else { break }
      guard stream.hasPeerGone else {
        waiting.markAnswered(id, now: loop.now)
        stream.mayGreet = nil
        stream.resumeReading()
        break
      }
      shared.admission.giveBackHandshake()
      leave(id)?.stream.close()
    }
    greetingTimer.arm(at: greetings.due)
  }
}
