internal import SimpAccess
internal import SimpConnection
internal import SimpCore
internal import SimpIO
internal import SimpSupport
internal import SimpToken

/// What all users of a process share.
struct VerifyContext: Sendable {
  let plan: VerifyPlan
  let run: UInt32
  let address: String
  let key: TokenKey
  let trust: TrustSettings
  /// Where the stores are.
  let directory: String
  /// Writes down what the user's application sees.
  let record: @Sendable (HistoryEvent.What) -> Void
  /// A number for a device that begins: of a user without a store, each time he comes.
  let nextDevice: @Sendable () -> UInt32

  /// Clocks of servers and clients may be apart, and jump: a token is good a day before and after.
  func token(for user: String) throws(TokenError) -> String {
    let day: UInt64 = 86_400
    return try Tokens.mint(user: user, key: key, ttlSeconds: 3 * day, now: EventLoop.wallClockSeconds - day)
  }
}

/// One user: comes and goes, sends, and writes down what he was shown and told.
final class VerifyUser: Sendable {
  private struct State {
    var connection: SIMPConnection?
    var listener: Task<Void, Never>?
    var device: UInt32 = 0
    var life: UInt32 = 0
    /// Messages of this life to each user.
    var sent: [UInt32: UInt32] = [:]
    // BOUND: `openLimit`; and of what is stored, which may still be delivered, `storedLimit`.
    var open: [Sent] = []
    var stored: [Sent] = []
    /// Shown, and not acknowledged yet.
    var held: [(name: MessageName, message: SIMPMessage)] = []
    var heldSince = Instant.never
    var isLeaving = false
    var failure: SIMPError?
  }

  private struct Sent {
    let name: MessageName
    let receipt: SIMPReceipt
    var last: SIMPReceipt.State = .queued
  }

  /// Messages without a final receipt: then a user waits.
  static let openLimit = 4000
  private static let storedLimit = 4000
  /// Shown messages that an application acknowledges together, at most; often fewer: a kill should find it in the middle
  /// of that as well as with a handful in its hands.
  private static let heldLimit: UInt32 = 8
  /// How long the first of them waits for others.
  private static let heldTime = Interval.milliseconds(500)

  let number: Int
  let name: String
  private let context: VerifyContext
  private let state: Locked<State>

  /// - Parameter life: the highest of a life in earlier processes.
  init(_ number: Int, context: VerifyContext, life: UInt32 = 0) {
    self.number = number
    self.context = context
    name = VerifyPlan.name(number, run: context.run)
    state = Locked(State(life: life))
  }

  private var plan: VerifyPlan { context.plan }
  private var hasStore: Bool { plan.hasStore(number) }

  // MARK: - Coming and going

  /// Begins a life: connects, listens.
  func come() throws {
    var configuration = SIMPConnection.Configuration()
    configuration.software = "simp-bench verify"
    configuration.tls = SIMPConnection.Configuration.TLS(context.trust)
    configuration.usesUDP = plan.usesUDP
    configuration.isSendOnly = plan.sendsOnly(number)
    if hasStore { configuration.store = "\(context.directory)/\(name).store" }
    let byHand = plan.acknowledgesByHand(number)
    if byHand { configuration.acknowledgement = .manual }
    // The clock may jump while a connection is made; waiting long for one that comes to nothing costs time, no more.
    configuration.attemptTimeout = .seconds(3)
    configuration.reconnectDelays = (first: .milliseconds(50), last: .seconds(2))
    let connection = try SIMPConnection(
      to: context.address, token: try context.token(for: name), configuration: configuration)
    let (device, life, isNew) = state.withLock { state in
      let isNew = state.device == 0 || !hasStore
      if isNew {
        state.device = hasStore ? UInt32(number) + 1 : context.nextDevice()
        if !hasStore { state.life = 0 }
      }
      state.life += 1
      state.sent = [:]
      state.connection = connection
      state.isLeaving = false
      return (state.device, state.life, isNew)
    }
    if isNew {
      context.record(
        .device(
          .init(number: device, user: UInt32(number), name: name, hasStore: hasStore, acknowledgesByHand: byHand)))
    }
    context.record(.life(device: device, life: life))
    connection.start()
    let listener = Task { await listen(connection, device: device, life: life, byHand: byHand) }
    state.withLock { $0.listener = listener }
  }

  /// Ends a life, if he may: one without a store would take what is open with him, and stays.
  ///
  /// - Parameter patience: how long he waits for that.
  /// - Returns: whether he is gone.
  func go(patience: Duration) async -> Bool {
    state.withLock { $0.isLeaving = true }
    let deadline = Clock.now + Interval(patience)
    while !hasStore, unfinished > 0 {
      guard Clock.now < deadline else {
        state.withLock { $0.isLeaving = false }
        return false
      }
      await Self.pause(.milliseconds(20))
    }
    await leave()
    return true
  }

  /// Ends a life, whatever is open.
  func leave() async {
    let (connection, listener) = state.withLock { state -> (SIMPConnection?, Task<Void, Never>?) in
      state.isLeaving = true
      return (state.connection, state.listener)
    }
    guard let connection else { return }
    acknowledge()
    await connection.close()
    await listener?.value
    sweep()
    let (device, life) = state.withLock { state in
      state.connection = nil
      state.listener = nil
      state.open = []
      state.stored = []
      state.held = []
      return (state.device, state.life)
    }
    context.record(.over(device: device, life: life, isKilled: false))
  }

  // MARK: - Sending

  /// - Returns: false when he is away, or has too much under way.
  func post(to recipient: Int, size: Int) -> Bool {
    guard
      let (connection, name) = state.withLock({ state -> (SIMPConnection, MessageName)? in
        guard let connection = state.connection, !state.isLeaving, state.open.count < Self.openLimit else { return nil }
        let number = state.sent[UInt32(recipient), default: 0] + 1
        state.sent[UInt32(recipient)] = number
        return (
          connection, MessageName(device: state.device, life: state.life, to: UInt32(recipient), number: number)
        )
      })
    else { return false }
    context.record(.send(name))
    let text = Payload(name, run: context.run).text(size: size)
    do throws(SIMPError) {
      let receipt = try connection.post(text, to: VerifyPlan.name(recipient, run: context.run))
      state.withLock { $0.open.append(Sent(name: name, receipt: receipt)) }
      guard hasStore else {
        context.record(.took(name))
        return true
      }
      // With a store it is taken when it is there. A kill before that is no promise broken.
      Task { [context] in
        if (try? await receipt.kept()) != nil { context.record(.took(name)) }
      }
      return true
    } catch {
      if error.code != .outboxFull, error.code != .closed { note(error) }
      return false
    }
  }

  /// Writes down what receipts say that was not seen yet, and acknowledges what waits for that.
  func sweep() {
    if state.withLock({ !$0.held.isEmpty && Clock.now - $0.heldSince > Self.heldTime }) { acknowledge() }
    let seen = state.withLock { state -> [(MessageName, ReceiptState)] in
      var seen: [(MessageName, ReceiptState)] = []
      func look(_ sent: inout Sent) {
        let now = sent.receipt.state
        guard now != sent.last else { return }
        sent.last = now
        if let now = ReceiptState(rawValue: now.rawValue) { seen.append((sent.name, now)) }
      }
      for index in state.open.indices { look(&state.open[index]) }
      for index in state.stored.indices { look(&state.stored[index]) }
      state.stored.append(contentsOf: state.open.filter { $0.last == .stored })
      state.open.removeAll { $0.last.isFinal }
      state.stored.removeAll { $0.last != .stored }
      if state.stored.count > Self.storedLimit { state.stored.removeFirst(state.stored.count - Self.storedLimit) }
      return seen
    }
    for (name, now) in seen { context.record(.receipt(name, now)) }
  }

  // MARK: - Receiving

  private func listen(_ connection: SIMPConnection, device: UInt32, life: UInt32, byHand: Bool) async {
    var messages = connection.messages.makeAsyncIterator()
    do throws(SIMPError) {
      while let message = try await messages.next() {
        let name = Payload(reading: message.text ?? "").flatMap { MessageName($0, run: context.run) }
        context.record(
          .delivery(
            .init(
              device: device, life: life, message: name, from: message.from, isLate: message.isLate,
              isRedelivered: message.isRedelivered)))
        guard byHand, let name else { continue }
        let isEnough = state.withLock { state in
          if state.held.isEmpty { state.heldSince = Clock.now }
          state.held.append((name, message))
          return state.held.count > name.number % Self.heldLimit
        }
        if isEnough { acknowledge() }
      }
    } catch {
      note(error)
    }
  }

  private func acknowledge() {
    let (held, device) = state.withLock { state in
      defer { state.held = [] }
      return (state.held, state.device)
    }
    for (name, message) in held {
      context.record(.acknowledging(name, by: device))
      message.acknowledge()
      context.record(.acknowledged(name, by: device))
    }
  }

  private func note(_ error: SIMPError) { state.withLock { $0.failure = $0.failure ?? error } }

  // MARK: - Reading

  /// Messages of this life, and of earlier ones that the store kept, without a final receipt.
  var unfinished: Int {
    let (connection, open) = state.withLock { ($0.connection, $0.open.count) }
    return connection.map { max(open, $0.statistics.unfinished) } ?? 0
  }
  var isOnline: Bool { state.withLock { $0.connection != nil } }
  /// Why his connection is over although he did not end it.
  var failure: SIMPError? { state.withLock { $0.failure } }

  /// Sleeps, also in a cancelled task.
  static func pause(_ time: Duration) async { await Task.detached { try? await Task.sleep(for: time) }.value }
}

extension SIMPReceipt.State {
  fileprivate var isFinal: Bool {
    switch self {
    case .stored, .delivered, .read, .rejected, .expired: true
    case .queued, .accepted, .later: false
    }
  }
}

extension Payload {
  fileprivate init(_ name: MessageName, run: UInt32) {
    self.init(
      run: run, sender: name.device, conversation: name.to, number: UInt64(name.life) << 28 | UInt64(name.number),
      due: Clock.now, lag: 0)
  }
}

extension MessageName {
  fileprivate init?(_ payload: Payload, run: UInt32) {
    guard payload.run == run, payload.number >> 28 <= UInt32.max, payload.number & (1 << 28 - 1) > 0 else { return nil }
    self.init(
      device: payload.sender, life: UInt32(payload.number >> 28), to: payload.conversation,
      number: UInt32(payload.number & (1 << 28 - 1)))
  }
}
