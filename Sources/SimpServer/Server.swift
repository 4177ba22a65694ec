internal import Glibc
public import SimpCore
public import SimpIO
internal import SimpRedis
public import SimpSupport

/// A server: state directory, Redis, reactors. Created, started and stopped on a control loop, which does nothing else
/// but wait for signals and look after the embedded Redis.
///
/// `@unchecked Sendable`: touched on the control loop only; reactors answer through `control.execute`.
public final class Server: @unchecked Sendable {
  /// Where it can be reached.
  public struct Ready: Sendable {
    public var tcp: PeerAddress
    public var udp: PeerAddress
    public var node: String
    public var keys: Keys
    /// nil with TLS off.
    public var certificate: Certificate?
  }

  /// Whose tokens are taken.
  public struct Keys: Hashable, Sendable {
    public var path: String
    /// Made at this start.
    public var isNew: Bool
    /// For each key its `kid`, or `unnamed`, and its algorithm.
    public var names: [String]
    /// Keys of the file that are for something else: a sentence for each.
    public var passedOver: [String]
  }

  /// What clients are shown.
  public struct Certificate: Sendable {
    public var path: String
    public var facts: CertificateFacts
    /// Made at this start, with a new key.
    public var isNew: Bool
  }

  private let configuration: ServerConfiguration
  private let log: Log
  private let control: EventLoop
  public let registry = CounterRegistry()
  private let node: String
  /// Of the server that had the state directory before.
  private var formerNode: String?
  private var state: StateDirectory?
  private var tls: ServerTLS?
  private var tokens: TokenAuthority?
  private var embedded: EmbeddedRedis?
  private var probe: RedisLink?
  private(set) var acceptor: Acceptor?
  private(set) var reactors: [Reactor] = []
  private var shared: ServerShared?
  private var isStopping = false
  /// Reactors that have not stopped yet, while the server stops.
  private var running = 0
  /// Reactors whose link to Redis has not come up yet, while the server starts.
  private var starting = 0
  private var onReady: (() -> Void)?
  /// Reactors that have not given their sign of life yet.
  private var unanswered = 0

  /// How long an external Redis may take to answer at the start.
  static let redisPatience = Interval.seconds(5)

  /// - Parameter control: a loop that the caller runs.
  public init(_ configuration: ServerConfiguration, control: EventLoop, log: Log) {
    self.configuration = configuration
    self.control = control
    self.log = log
    node = RandomBytes.bytes(6).map { byte in (byte < 16 ? "0" : "") + String(byte, radix: 16) }.joined()
  }

  // MARK: - Start

  /// Starts; on the control loop, once.
  ///
  /// - Parameter completion: where it listens, or a sentence that says why it does not.
  public func start(completion: @escaping (Result<Ready, ServerError>) -> Void) {
    do throws(ServerError) {
      try checkPorts()
      let state = try StateDirectory(path: configuration.stateDirectory)
      self.state = state
      tokens = try TokenAuthority(configuration, state: state)
      tls = try ServerTLS(configuration, stateDirectory: state.path)
      formerNode = try state.exchange(node: node)
    } catch {
      return completion(.failure(error))
    }
    openRedis { [unowned self] result in
      switch result {
      case .failure(let error): completion(.failure(error))
      case .success(let address): self.openReactors(redis: address, completion: completion)
      }
    }
  }

  /// Binds both ports once without sharing them: reactors that share a port would not see that another program has it.
  private func checkPorts() throws(ServerError) {
    do throws(IOError) {
      try StreamListener.checkFree(address(configuration.port))
      try DatagramSocket.checkFree(address(configuration.udpPort))
    } catch {
      throw ServerError("\(error)")
    }
  }

  private func address(_ port: UInt16) -> PeerAddress {
    var address = configuration.listen
    address.port = port
    return address
  }

  private func openRedis(completion: @escaping (Result<RedisAddress, ServerError>) -> Void) {
    switch configuration.redis {
    case .embedded:
      guard let stateDirectory = state?.path else { preconditionFailure("the state directory comes first") }
      let embedded = EmbeddedRedis(
        loop: control, directory: stateDirectory, maximumMemoryBytes: configuration.redisMemoryBytes
      ) { [log] event in
        log.info("embedded redis", ["event": "\(event)"])
      }
      self.embedded = embedded
      embedded.start { result in completion(result.mapError { ServerError("\($0)") }) }
    case .external(let text):
      do throws(RedisError) {
        probeRedis(try RedisAddress(parsing: text), completion: completion)
      } catch {
        completion(.failure(ServerError("--redis \(text): \(error)")))
      }
    }
  }

  /// A Redis that is not there at the start is a mistake to be told; one that goes away later is waited for.
  private func probeRedis(
    _ address: RedisAddress, completion: @escaping (Result<RedisAddress, ServerError>) -> Void
  ) {
    if !address.isOnThisMachine {
      log.warn("redis is on another machine and spoken to in clear text", ["address": address])
    }
    let link = RedisLink(loop: control, address: address)
    probe = link
    let patience = control.makeTimer { [unowned self] in
      let reason = link.lastError.map { "\($0)" } ?? "no answer"
      self.endProbe()
      completion(
        .failure(
          ServerError(
            "Redis at \(address) does not answer: \(reason). Start it, name another with --redis HOST:PORT, or use "
              + "--redis embedded")))
    }
    patience.arm(at: control.now + Self.redisPatience)
    link.onUp = { [unowned self] in
      patience.close()
      // Not from inside the link's own call.
      self.control.execute { [unowned self] in self.endProbe() }
      completion(.success(address))
    }
    link.start()
  }

  private func endProbe() {
    probe?.stop()
    probe = nil
  }

  private func openReactors(redis: RedisAddress, completion: @escaping (Result<Ready, ServerError>) -> Void) {
    guard let tokens else { preconditionFailure("reactors open after the state directory") }
    let shared = ServerShared(
      node: node, formerNode: formerNode, reactors: configuration.reactors, tokens: tokens, tls: tls?.context,
      keyLimits: KeyLimits(phaseDatagrams: configuration.keyPhaseDatagrams), log: log,
      counters: ServerCounters(registry), limits: configuration.limits)
    var tcp = address(configuration.port)
    var udp = address(configuration.udpPort)
    do throws(IOError) {
      let acceptor = try Acceptor(shared: shared)
      self.acceptor = acceptor
      // Their threads do not run yet, so this one may touch them.
      tcp.port = try acceptor.open(tcp)
      for number in 0..<configuration.reactors {
        let reactor = try Reactor(number: UInt8(number), shared: shared)
        reactors.append(reactor)
        udp.port = try reactor.open(udp: udp, redis: redis)
      }
      shared.set(reactors)
      self.shared = shared
      let certificate = tls.map { tls in
        Certificate(path: tls.certificatePath, facts: tls.context.facts, isNew: tls.isKeyNew)
      }
      let ready = Ready(
        tcp: tcp, udp: udp, node: node, keys: tokens.facts, certificate: certificate)
      // A login before Redis answers would be refused: the server is ready when every reactor's link is up.
      starting = reactors.count
      onReady = { completion(.success(ready)) }
      for reactor in reactors {
        try reactor.begin { [self] in control.execute { [self] in reactorIsUp() } }
      }
    } catch {
      closeLoops()
      shared.set([])
      return completion(.failure(ServerError("\(error)")))
    }
    for reactor in reactors { reactor.loop.startThread(name: "simp-reactor-\(reactor.number)") }
    acceptor?.loop.startThread(name: "simp-acceptor", niceness: Acceptor.niceness)
  }

  private func reactorIsUp() {
    starting -= 1
    guard starting == 0, let onReady else { return }
    self.onReady = nil
    onReady()
  }

  private func closeLoops() {
    acceptor?.loop.close()
    acceptor = nil
    for reactor in reactors { reactor.loop.close() }
    reactors = []
  }

  // MARK: - Reload

  /// Reads certificate and its key again, for connections to come; those that are there go on. On the control loop.
  ///
  /// - Returns: what clients are shown from now on; nil with TLS off.
  /// - Throws: what is wrong with the files; then what was in force stays.
  public func reloadCertificate() throws(ServerError) -> CertificateFacts? {
    try tls?.reload()
    return tls?.context.facts
  }

  /// Reads the keys of tokens again, for logins to come; sessions that are there go on. On the control loop.
  ///
  /// - Returns: the keys from now on; nil before the start.
  /// - Throws: what is wrong with the file; then the keys that were in force stay.
  public func reloadKeys() throws(ServerError) -> Keys? {
    try tokens?.reload()
    return tokens?.facts
  }

  // MARK: - Health

  /// Asks every reactor, and the acceptor, for a sign of life. On the control loop. Does nothing while an earlier question is open.
  ///
  /// - Parameter completion: called on the control loop when all have answered; never, if one does not.
  public func checkReactors(completion: @escaping @Sendable () -> Void) {
    guard unanswered == 0 else { return }
    guard let acceptor, !reactors.isEmpty else { return completion() }
    unanswered = reactors.count + 1
    let answered: @Sendable () -> Void = { [self] in
      control.execute { [self] in
        unanswered -= 1
        if unanswered == 0 { completion() }
      }
    }
    for reactor in reactors { reactor.perform { _ in answered() } }
    acceptor.perform { _ in answered() }
  }

  // MARK: - Stop

  /// Tells every client, flushes, removes what Redis holds of this node, and stops the embedded Redis.
  ///
  /// - Parameter completion: called once on the control loop.
  public func stop(completion: @escaping @Sendable () -> Void) {
    guard !isStopping else { return }
    isStopping = true
    let refusal = Self.goodbye(connections: shared?.admission.counts.connections ?? 0, limits: configuration.limits)
    running = reactors.count
    let stopped: @Sendable () -> Void = { [self] in
      control.execute { [self] in
        running -= 1
        if running == 0 { finishStopping(completion) }
      }
    }
    guard let acceptor else { return finishStopping(completion) }
    // Whom the acceptor has handed over is told as well.
    acceptor.perform { [reactors] acceptor in
      acceptor.stop()
      for reactor in reactors { reactor.perform { $0.stop(refusal, completion: stopped) } }
    }
  }

  /// What clients are told when the server goes down: to come back when its successor may be there, and spread so that
  /// it has room for all of them: at three quarters of the rate of handshakes and logins that it takes.
  static func goodbye(connections: Int, limits: ServerLimits) -> Refusal {
    let rate = max(1, min(limits.loginsPerSecond, limits.handshakesPerSecond))
    // BOUND: ten minutes; who has waited so long comes whatever the rate.
    let spread = min(max(connections * 4000 / (3 * rate), 500), 600_000)
    return Refusal(
      .shuttingDown, "the server is shutting down", retryAfterMilliseconds: 500,
      retrySpreadMilliseconds: UInt32(spread))
  }

  private func finishStopping(_ completion: @escaping @Sendable () -> Void) {
    closeLoops()
    // They know one another through it.
    shared?.set([])
    shared = nil
    guard let embedded else {
      state = nil
      return completion()
    }
    // The directory is locked until nothing of this server writes to it.
    embedded.stop { [self] in
      state = nil
      completion()
    }
  }
}
