public import SimpCore
public import SimpIO

/// A connection to Redis that comes back by itself.
///
/// On its loop's thread only. A command is answered exactly once: with the reply, or with an error that says whether it
/// may have been carried out. While the link is down commands are refused at once; nothing is queued, so that the caller
/// decides what waits. `stop()` it before letting go of it.
///
/// The connection is given up, and made again, when its oldest command has missed its deadline and nothing was answered
/// for as long: Redis answers in order, so everything waits behind that one.
public final class RedisLink {
  private enum Phase {
    case stopped
    /// Until the timer makes the next attempt.
    case waiting
    case resolving
    /// Connected or about to be; the first PING is not answered yet.
    case greeting(RedisConnection)
    case up(RedisConnection)
  }

  public let address: RedisAddress
  /// Called each time the link has come up, on the loop.
  public var onUp: (() -> Void)?
  /// Called when a link that was up has gone, with the reason; after the commands under way were answered.
  public var onDown: ((RedisError) -> Void)?
  /// Called when an attempt to connect has failed, with the reason.
  public var onAttemptFailed: ((RedisError) -> Void)?
  /// Why the link is not up; nil while it is.
  public private(set) var lastError: RedisError?

  /// How long a command waits for its reply unless the caller says otherwise.
  public static let standardDeadline = Interval.seconds(2)
  /// The wait before the second attempt; doubles with each further one up to `longestWait`, and each is shortened by up
  /// to a quarter at random, so that the links of many processes do not come at once.
  public static let shortestWait = Interval.milliseconds(50)
  public static let longestWait = Interval.seconds(2)

  private let loop: EventLoop
  private var phase = Phase.stopped
  private var failedAttempts = 0
  /// Counts attempts, so that what belongs to an old one is known.
  private var attempt = 0
  private var retry: LoopTimer?
  private var refusals: [(RedisError, (RedisError) -> Void)] = []
  private var refusing: LoopTimer?
  private var observers: [() -> Void] = []
  /// What `together` collects while its body runs.
  private var batch: RedisBatch?

  public init(loop: EventLoop, address: RedisAddress) {
    self.loop = loop
    self.address = address
  }

  /// Whether commands are taken now.
  public var isUp: Bool {
    if case .up = phase { true } else { false }
  }

  /// Begins to connect, and from now on comes back whenever the connection goes.
  public func start() {
    loop.preconditionCurrent()
    guard case .stopped = phase else { return }
    retry = loop.makeTimer { [unowned self] in self.retryCame() }
    refusing = refusing ?? loop.makeTimer { [unowned self] in self.answerRefusals() }
    failedAttempts = 0
    connect()
  }

  /// Ends the connection. Commands under way are answered with `stopped` before this returns, or, when it is called from
  /// a completion, right after that.
  public func stop() {
    loop.preconditionCurrent()
    let phase = phase
    self.phase = .stopped
    attempt += 1
    retry?.close()
    retry = nil
    let stopped = RedisError(.stopped, "the link to Redis was stopped")
    lastError = stopped
    switch phase {
    case .greeting(let connection), .up(let connection): connection.close(stopped)
    case .stopped, .waiting, .resolving: break
    }
    answerRefusals()
    refusing?.close()
    refusing = nil
  }

  /// Sends a command.
  ///
  /// - Parameters:
  ///   - arguments: the command's name and its words.
  ///   - deadline: after this long without a reply the completion gets `timedOut`.
  ///   - completion: called once, on the loop, never from inside this call. A Redis that answers with an error is a
  ///     success here: `.success(.error(…))`.
  public func command(
    _ arguments: [RedisArgument], deadline: Interval = standardDeadline,
    completion: @escaping (Result<RedisReply, RedisError>) -> Void
  ) {
    loop.preconditionCurrent()
    let command = RedisBatch.Command(arguments: arguments, deadline: deadline, completion: completion)
    guard batch == nil else {
      batch?.commands.append(command)
      if batch?.commands.count == RedisBatch.maximumCommands { endBatch(andBegin: true) }
      return
    }
    send(command)
  }

  private func send(_ command: RedisBatch.Command) {
    let refusal: RedisError?
    if case .up(let connection) = phase {
      refusal = connection.send(command.arguments, patience: command.deadline, completion: command.completion)
    } else {
      refusal = Self.notConnected
    }
    if let refusal { refuse(refusal) { command.completion(.failure($0)) } }
  }

  private static let notConnected = RedisError(.notConnected, "there is no connection to Redis now")

  /// Sends the commands that `body` gives so that Redis carries them out one after another, with nothing in between, and
  /// with `appendfsync always` waits for its disk once for all of them.
  ///
  /// They are answered together, when the last is done. Each has its own reply, and one that is an error does not stop
  /// the others; but when Redis does not even take a command, as it does when it is full, none of them is carried out
  /// and each is a failure. Redis serves nobody else meanwhile, so a long batch is sent in parts of
  /// `RedisBatch.maximumCommands`. Keys of different slots in one batch do not work in a cluster.
  public func together(_ body: () -> Void) {
    loop.preconditionCurrent()
    guard batch == nil else { return body() }
    batch = RedisBatch()
    body()
    endBatch(andBegin: false)
  }

  private func endBatch(andBegin next: Bool) {
    guard let batch else { return }
    self.batch = next ? RedisBatch() : nil
    if batch.commands.count == 1 {
      send(batch.commands[0])
    } else if !batch.commands.isEmpty {
      send(batch)
    }
  }

  private func send(_ batch: RedisBatch) {
    let refusal: RedisError?
    if case .up(let connection) = phase { refusal = connection.send(batch) } else { refusal = Self.notConnected }
    if let refusal { refuse(refusal) { batch.complete(.failure($0)) } }
  }

  /// Answers in the next turn, so that no caller is called back while it is still calling.
  func refuse(_ error: RedisError, _ completion: @escaping (RedisError) -> Void) {
    refusals.append((error, completion))
    refusing = refusing ?? loop.makeTimer { [unowned self] in self.answerRefusals() }
    refusing?.arm(at: loop.now)
  }

  /// Has `body` called each time the link has come up, before `onUp`; and now, when it is up.
  func observeUp(_ body: @escaping () -> Void) {
    observers.append(body)
    if isUp { body() }
  }

  private func answerRefusals() {
    let answers = refusals
    refusals = []
    for (error, completion) in answers { completion(error) }
  }

  // MARK: Connecting

  private func connect() {
    attempt += 1
    switch address {
    case .unix(let path):
      open { handlers throws(RedisError) in try RedisConnection(loop: loop, path: path, handlers: handlers) }
    case .tcp(let host, let port, _, _):
      if let literal = PeerAddress(literal: host, port: port) {
        open(literal)
      } else {
        resolve(host: host, port: port)
      }
    }
  }

  private func resolve(host: String, port: UInt16) {
    phase = .resolving
    let mine = attempt
    Resolver.resolve(host: host, port: port, loop: loop) { [weak self] result in
      guard let self, self.attempt == mine, case .resolving = self.phase else { return }
      switch result {
      case .success(let addresses) where !addresses.isEmpty:
        // One a try, in turn: the next attempt takes the next address.
        self.open(addresses[self.failedAttempts % addresses.count])
      case .success: self.attemptFailed(RedisError(.cannotConnect, "\(host) has no address"))
      case .failure(let error): self.attemptFailed(RedisError(.cannotConnect, "\(error)", systemCode: error.code))
      }
    }
  }

  private func open(_ peer: PeerAddress) {
    open { handlers throws(RedisError) in
      try RedisConnection(loop: loop, host: peer.host, port: peer.port, handlers: handlers)
    }
  }

  private func open(_ make: (RedisConnection.Handlers) throws(RedisError) -> RedisConnection) {
    let mine = attempt
    let handlers = RedisConnection.Handlers(
      failing: { [weak self] error in self?.isFailing(error, attempt: mine) },
      stalled: { [weak self] in self?.isStalled(attempt: mine) },
      closed: { [weak self] in self?.isClosed(attempt: mine) })
    do throws(RedisError) {
      let connection = try make(handlers)
      phase = .greeting(connection)
      greet(connection)
    } catch {
      attemptFailed(error)
    }
  }

  /// Signs in if need be and asks for a first answer: a Redis that is stopped or loading accepts connections too.
  private func greet(_ connection: RedisConnection) {
    if case .tcp(_, _, let user, let password?) = address {
      let login = [user, password].compactMap { $0.map { RedisArgument($0) } }
      ask(connection, ["AUTH"] + login) { reply in
        guard case .error(let text) = reply else { return }
        connection.close(RedisError(.refused, "Redis refused the login: \(text)"))
      }
    }
    ping(connection)
  }

  private func ping(_ connection: RedisConnection) {
    ask(connection, ["PING"]) { [weak self] reply in
      guard let self, case .greeting(let current) = self.phase, current === connection else { return }
      switch reply {
      case .status("PONG"): self.comeUp(connection)
      case .error(let text) where text.hasPrefix("LOADING"):
        // It answers already, only not with data: asked again on the same connection.
        self.lastError = RedisError(.refused, "Redis is loading its data")
        self.retry?.arm(at: self.loop.now + .milliseconds(100))
      case .error(let text) where text.hasPrefix("NOAUTH"):
        connection.close(RedisError(.refused, "Redis wants a password: give it as USER:PASSWORD@HOST:PORT"))
      case .error(let text): connection.close(RedisError(.refused, "Redis refused the connection: \(text)"))
      default: connection.close(RedisError(.unexpectedReply, "what answers there is no Redis"))
      }
    }
  }

  /// A command of the greeting; only replies matter, the end of the connection is told otherwise.
  private func ask(_ connection: RedisConnection, _ words: [RedisArgument], _ body: @escaping (RedisReply) -> Void) {
    let refusal = connection.send(words, patience: Self.standardDeadline) { result in
      if case .success(let reply) = result { body(reply) }
    }
    if let refusal { connection.close(refusal) }
  }

  private func comeUp(_ connection: RedisConnection) {
    phase = .up(connection)
    failedAttempts = 0
    lastError = nil
    let mine = attempt
    for observer in observers where mine == attempt { observer() }
    if isUp, mine == attempt { onUp?() }
  }

  // MARK: Losing it

  private func isFailing(_ error: RedisError, attempt: Int) {
    guard attempt == self.attempt else { return }
    lastError = error
    // From here on commands are refused: those under way are answered next, and their completions may send more.
    wasUp = isUp
    phase = .waiting
  }

  /// Between `isFailing` and `isClosed`: whether the connection that goes had come up.
  private var wasUp = false

  private func isStalled(attempt: Int) {
    guard attempt == self.attempt else { return }
    let error = RedisError(.connectionLost, "Redis does not answer; the connection was given up")
    switch phase {
    case .greeting(let connection), .up(let connection): connection.close(error)
    case .stopped, .waiting, .resolving: break
    }
  }

  private func isClosed(attempt: Int) {
    guard attempt == self.attempt else { return }
    let error = lastError ?? RedisError(.connectionLost, "the connection to Redis went")
    let wasUp = wasUp
    self.wasUp = false
    scheduleRetry()
    if wasUp { onDown?(error) } else { onAttemptFailed?(error) }
  }

  private func attemptFailed(_ error: RedisError) {
    lastError = error
    scheduleRetry()
    onAttemptFailed?(error)
  }

  private func scheduleRetry() {
    phase = .waiting
    let doubled = Self.shortestWait * (1 << Int64(min(failedAttempts, 10)))
    failedAttempts += 1
    let wait = min(doubled, Self.longestWait)
    let shortened = wait.nanoseconds - Int64.random(in: 0...wait.nanoseconds / 4)
    retry?.arm(at: loop.now + Interval(nanoseconds: shortened))
  }

  private func retryCame() {
    switch phase {
    case .waiting: connect()
    case .greeting(let connection): ping(connection)
    case .stopped, .resolving, .up: break
    }
  }
}
