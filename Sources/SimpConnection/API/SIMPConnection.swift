internal import SimpCore
internal import SimpIO

/// A user's connection to a SIMP server.
///
/// It logs in, finds out whether UDP works, and from then on carries messages: by UDP where that is faster, by TCP where
/// it must. When it breaks it is made again by itself, and nothing that `send` or `post` took is lost by that: the
/// outbox keeps each message until its final receipt. The outbox lives in memory, as long as the connection does, or with
/// `configuration.store` in a file.
///
/// All connections of a program share one thread. Everything here may be called from any thread and task.
///
/// ```swift
/// try await SIMPConnection.withConnection(to: "im.example.org", token: token) { simp in
///   try await simp.send("hello", to: "bob")
///   for try await message in simp.messages { print(message.from, message.text ?? "") }
/// }
/// ```
public final class SIMPConnection: Sendable {
  let driver: Driver

  /// A connection that does nothing before `start()` or `connected()`.
  ///
  /// - Parameters:
  ///   - address: `host`, `host:port` or `[IPv6]:port`.
  ///   - token: the user's JWT, at most 3072 bytes.
  /// - Throws: `invalidAddress`; `tokenInvalid` for one that no server can take; `invalidTrust` when what is to be
  ///   trusted cannot be read; `system` when descriptors ran out. With a store, which is read here: `storeInUse`,
  ///   `storeInvalid`, `storeFailed`.
  public init(to address: String, token: String, configuration: Configuration = Configuration()) throws(SIMPError) {
    let server = try ServerName(parsing: address, defaultPort: configuration.defaultPort)
    guard configuration.tokenProvider != nil || (1...WireLimits.maximumTokenBytes).contains(token.utf8.count) else {
      throw SIMPError(.tokenInvalid, "a token has 1 to \(WireLimits.maximumTokenBytes) bytes")
    }
    let trust = try SharedTrust.context(configuration.tls)
    driver = try Driver(
      thread: IOThread.shared(), server: server, trust: trust, token: token, configuration: configuration)
  }

  /// Ends the connection without a goodbye, if that was not done: messages without a final receipt are given up.
  deinit { driver.execute { $0.end(nil) } }

  /// Connects, runs `body`, waits up to `configuration.drainTimeout` for open receipts, and closes.
  ///
  /// - Throws: what `body` throws; why there was no first session (`connected`).
  public static func withConnection<Value>(
    to address: String, token: String, configuration: Configuration = Configuration(),
    isolation: isolated (any Actor)? = #isolation, _ body: (SIMPConnection) async throws -> Value
  ) async throws -> Value {
    let connection = try SIMPConnection(to: address, token: token, configuration: configuration)
    do {
      try await connection.connected()
      let value = try await body(connection)
      // What is not finished by then is told by its receipts.
      try? await connection.drain(timeout: configuration.drainTimeout)
      await connection.close()
      return value
    } catch {
      await connection.close()
      throw error
    }
  }

  /// Begins to connect, and to reconnect whenever that is needed. Further calls do nothing.
  public func start() {
    let isFirst = driver.standing.change { standing in
      defer { standing.hasStarted = true }
      return !standing.hasStarted
    }
    if isFirst { driver.execute { $0.start() } }
  }

  /// Starts if need be, and waits for the first session.
  ///
  /// - Throws: why the server refused the login; `connectFailed` when there was no session within
  ///   `configuration.connectTimeout` (attempts go on all the same); `closed`; `cancelled`.
  public func connected() async throws(SIMPError) {
    start()
    let timeout = driver.configuration.connectTimeout
    let waited = await driver.standing.wait(timeout: timeout) { standing -> Result<Void, SIMPError>? in
      if let end = standing.end { return .failure(end ?? SIMPError(.closed, "the connection is closed")) }
      return standing.hasLoggedIn ? .success(()) : nil
    }
    if case .timedOut = waited {
      let reason = driver.standing.read { $0.lastFailure?.message } ?? "no answer"
      throw SIMPError(.connectFailed, "no session with \(driver.server) within \(timeout): \(reason)")
    }
    try waited.result("for a session").get()
  }

  /// Takes no more messages, says goodbye to the server, and ends. What the application took is receipted first. The
  /// server's answer is waited for up to 2 s. Messages without a final receipt are given up, see `drain`; with a store
  /// they stay there for the next connection, and when this returns the store is free for it.
  ///
  /// Returns when all that is done, also in a task that was cancelled. May be called more than once.
  public func close() async {
    driver.outgoing.update { outgoing in
      outgoing.refusal = outgoing.refusal ?? SIMPError(.closed, "the connection is closed")
    }
    driver.execute { $0.close() }
    _ = await driver.standing.wait(isCancellable: false) { $0.end == nil ? nil : () }
  }

  /// Waits until every message that was sent has its final receipt.
  ///
  /// - Throws: `timedOut`, with the number of open messages; why the connection ended; `cancelled`.
  public func drain(timeout: Duration) async throws(SIMPError) {
    let waited = await driver.outgoing.wait(timeout: timeout) { outgoing -> Result<Void, SIMPError>? in
      if outgoing.open == 0 { return .success(()) }
      return outgoing.isOver ? .failure(outgoing.refusal ?? SIMPError(.closed, "the connection is closed")) : nil
    }
    if case .timedOut = waited {
      let open = driver.outgoing.read(\.open)
      throw SIMPError(.timedOut, "\(open) messages have no final receipt within \(timeout)")
    }
    try waited.result("for open receipts").get()
  }

  /// The receipts of messages that the store held when this connection was made, oldest first. Empty without a store.
  public var restored: [SIMPReceipt] { driver.restored }

  /// The order of the last message to a user that the outbox took, 0 when there was none: messages to each user are
  /// numbered 1, 2, 3 and so on, as their recipient sees it in `SIMPMessage.order`. With a store the numbers go on where
  /// they were: a program that was killed learns by them how far it had got.
  public func lastOrder(to user: String) -> UInt64 { driver.outgoing.read { $0.lastOrders[user] ?? 0 } }

  /// What comes for the user. See `Messages`.
  public var messages: Messages { Messages(driver: driver) }

  /// The states from now on, beginning with the present one. See `States`.
  public var states: States { States(feed: driver.board.makeFeed()) }

  /// What was counted, as of the last work of the connection.
  public var statistics: SIMPStatistics { driver.published.withLock { $0 } }

  /// Measures a round trip to the server and back, its and our loop included.
  ///
  /// - Throws: `noPath` when UDP does not work at present; `connectionLost`; `timedOut` after `timeout`; `cancelled`.
  public func ping(via transport: SIMPTransport, timeout: Duration = .seconds(5)) async throws(SIMPError) -> Duration {
    let answer = Watched<Result<Duration, SIMPError>?>(nil)
    driver.execute { $0.ping(transport, answer: answer) }
    return try await answer.wait(timeout: timeout) { $0 }.result("for the answer").get()
  }

  /// Makes this connection's datagrams fare badly from now on, or well again: for tests.
  public func impair(_ impairment: SIMPImpairment?) {
    driver.execute { driver in
      driver.impairment = impairment
      driver.socket?.impairment = impairment
    }
  }
}
