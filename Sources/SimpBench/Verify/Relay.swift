internal import SimpConnection
internal import SimpCore
internal import SimpIO

/// A network of our own between clients and a server, for TCP and UDP, which can be made to fare badly: what a router,
/// a NAT or a bad line does, without any right that a user does not have.
///
/// `@unchecked Sendable`: everything is touched on `loop` only; others use `onLoop`.
final class Relay: @unchecked Sendable {
  /// How datagrams fare, each way. Held up: between `delay` and `delay + jitter`, which changes their order.
  struct Impairment: Sendable {
    var loss = 0.0
    var duplication = 0.0
    var delay = Interval.zero
    var jitter = Interval.zero
  }

  private let loop: EventLoop
  private let server: (tcp: PeerAddress, udp: PeerAddress)
  private var random: SplitMix
  private var listener: StreamListener?
  private var socket: DatagramSocket?
  // BOUND: as many as clients connect.
  private var pairs: [ObjectIdentifier: StreamPair] = [:]
  // BOUND: `flowLimit`; the one that was idle the longest goes.
  private var flows: [PeerAddress: Flow] = [:]
  private var line: DelayLine
  private var isBlackhole = false
  private var impairment: Impairment?

  private static let flowLimit = 2000

  private final class Flow {
    var socket: DatagramSocket
    var lastUse: Instant

    init(socket: DatagramSocket, lastUse: Instant) {
      self.socket = socket
      self.lastUse = lastUse
    }
  }

  private init(loop: EventLoop, server: (tcp: PeerAddress, udp: PeerAddress), seed: UInt64) {
    self.loop = loop
    self.server = server
    random = SplitMix(state: seed)
    line = DelayLine(loop)
  }

  /// Opens both ports.
  ///
  /// - Parameters:
  ///   - tcp: where it listens, and what it relays to.
  ///   - udp: the same for datagrams.
  static func start(
    on loop: EventLoop, tcp: (PeerAddress, PeerAddress), udp: (PeerAddress, PeerAddress), seed: UInt64
  ) async throws -> Relay {
    let result: Result<Relay, IOError> = await withCheckedContinuation { continuation in
      loop.execute {
        continuation.resume(
          returning: Result { () throws(IOError) in
            let relay = Relay(loop: loop, server: (tcp.1, udp.1), seed: seed)
            try relay.open(tcp.0, udp.0)
            return relay
          })
      }
    }
    return try result.get()
  }

  private func open(_ tcp: PeerAddress, _ udp: PeerAddress) throws(IOError) {
    listener = try StreamListener(loop: loop, address: tcp) { [unowned self] stream, _ in take(stream) }
    let socket = try DatagramSocket(loop: loop, bind: udp)
    self.socket = socket
    socket.onReceive { [unowned self] datagram, client in
      pass([UInt8](copying: datagram)) { relay, datagram in
        relay.flow(of: client)?.socket.send(datagram, to: relay.server.udp)
      }
    }
  }

  // MARK: - What can be done to it

  func setBlackhole(_ isOn: Bool) async { await onLoop { $0.isBlackhole = isOn } }
  func setImpairment(_ impairment: Impairment?) async { await onLoop { $0.impairment = impairment } }

  /// Breaks a share of the TCP connections, at once and without a goodbye.
  ///
  /// - Returns: how many.
  func cut(share: Double) async -> Int {
    await onLoop { relay in
      let cut = relay.pairs.values.filter { _ in relay.random.fraction() < share }
      for pair in cut { pair.close() }
      return cut.count
    }
  }

  /// Gives a share of the UDP flows a new address towards the server, and forgets the old one, as a NAT that restarts.
  ///
  /// - Returns: how many.
  func rebind(share: Double) async -> Int {
    await onLoop { relay in
      var count = 0
      for (client, flow) in relay.flows where relay.random.fraction() < share {
        guard let new = relay.makeSocket(for: client) else { continue }
        flow.socket.close()
        flow.socket = new
        count += 1
      }
      return count
    }
  }

  func close() async {
    await onLoop { relay in
      relay.listener?.close()
      relay.socket?.close()
      for pair in relay.pairs.values { pair.close() }
      for flow in relay.flows.values { flow.socket.close() }
      relay.pairs = [:]
      relay.flows = [:]
      relay.line.close()
    }
  }

  private func onLoop<Value: Sendable>(_ body: @escaping @Sendable (Relay) -> Value) async -> Value {
    await withCheckedContinuation { continuation in
      loop.execute { continuation.resume(returning: body(self)) }
    }
  }

  // MARK: - TCP

  private func take(_ stream: Stream) {
    let pair = StreamPair(stream, to: server.tcp)
    pairs[ObjectIdentifier(pair)] = pair
    pair.onEnd = { [unowned self, unowned pair] in pairs[ObjectIdentifier(pair)] = nil }
    pair.start()
  }

  // MARK: - UDP

  private func flow(of client: PeerAddress) -> Flow? {
    if let flow = flows[client] {
      flow.lastUse = loop.now
      return flow
    }
    if flows.count >= Self.flowLimit, let oldest = flows.min(by: { $0.value.lastUse < $1.value.lastUse }) {
      oldest.value.socket.close()
      flows[oldest.key] = nil
    }
    guard let socket = makeSocket(for: client) else { return nil }
    let flow = Flow(socket: socket, lastUse: loop.now)
    flows[client] = flow
    return flow
  }

  private func makeSocket(for client: PeerAddress) -> DatagramSocket? {
    let own = PeerAddress.v4(127, 0, 0, 1, port: 0)
    guard let socket = try? DatagramSocket(loop: loop, bind: own, bufferBytes: 1 << 20) else { return nil }
    socket.onReceive { [unowned self] datagram, _ in
      pass([UInt8](copying: datagram)) { relay, datagram in relay.socket?.send(datagram, to: client) }
    }
    return socket
  }

  /// Lets a datagram fare as it should.
  private func pass(_ datagram: [UInt8], _ send: @escaping (Relay, [UInt8]) -> Void) {
    guard !isBlackhole else { return }
    guard let impairment else { return send(self, datagram) }
    let copies = random.fraction() < impairment.duplication ? 2 : 1
    for _ in 0..<copies where random.fraction() >= impairment.loss {
      let jitter = Int64(random.fraction() * Double(impairment.jitter.nanoseconds))
      let delay = impairment.delay + Interval(nanoseconds: jitter)
      line.add(after: delay) { [unowned self] in if !isBlackhole { send(self, datagram) } }
    }
  }
}

extension [UInt8] {
  fileprivate init(copying bytes: borrowing MutableSpan<UInt8>) {
    self = []
    append(copying: bytes.span)
  }
}
