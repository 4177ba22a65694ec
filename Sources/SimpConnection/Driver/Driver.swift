internal import SimpCore
internal import SimpIO
internal import SimpStore
internal import Synchronization

/// One connection's work on the I/O thread: sockets, session, outbox, timers, attempts.
///
/// `@unchecked Sendable`: callers of other threads touch `outgoing`, `inbox`, `board`, `standing`, `published`,
/// `receiptLock` and `isScheduled`, each of them a lock or an atomic, and the constants. Everything under "On the loop" belongs to the
/// loop's thread; it is reached by `schedule` and `execute` only.
final class Driver: @unchecked Sendable {
  /// What `connected` and `close` wait for.
  struct Standing {
    var hasStarted = false
    var hasLoggedIn = false
    var lastFailure: SIMPError?
    /// Set once, at the end: the error, or nil when this program closed the connection.
    var end: SIMPError??
  }

  let thread: IOThread
  let configuration: SIMPConnection.Configuration
  let server: ServerName
  /// nil with TLS off.
  let trust: TLSClientContext?

  let outgoing = Watched(Outgoing())
  let inbox = Watched(Inbox())
  let standing = Watched(Standing())
  let board = StateBoard()
  let published = Locked(SIMPStatistics())
  /// Of the progress of all receipts.
  let receiptLock = Locked(false)
  private let isScheduled = Atomic(false)
  /// nil without a store.
  private(set) var writer: StoreWriter?
  /// Of the messages that the store held at the beginning, oldest first.
  let restored: [SIMPReceipt]

  // MARK: On the loop

  enum Phase { case idle, waiting, preparing, online, over }

  struct OpenMessage {
    var receipt: SIMPReceipt
    var posted: Instant
    var bytes: Int
    /// Its place in the store.
    var counter: UInt64

    /// - Parameter sent: when it left for the first time.
    func move(to state: SIMPReceipt.State, sent: Instant?, now: Instant) {
      receipt.move(to: state, sent: sent.map { $0 - posted }, after: now - posted)
    }
  }

  struct OpenPing {
    var sent: Instant
    var answer: Watched<Result<Duration, SIMPError>?>
  }

  var phase = Phase.idle
  /// What the next login brings, unless there is a provider.
  var token: String
  /// It came while there was no session, and no server has seen it.
  var isTokenFresh = false
  var expiry = TokenExpiry()
  /// Requests under way, by their number in the session.
  var asks: [UInt16: @Sendable (Result<SessionAnswer, SIMPError>) -> Void] = [:]
  let outbox: Outbox
  let inbound: InboundMessages
  var open: [MessageKey: OpenMessage]
  var intake: StoredIntake
  /// What the store knows of the last login.
  var writtenLogin: StoreBatch.Login
  /// A login that the store does not know yet: no message leaves before.
  var unwrittenLogin: StoreBatch.Login?
  var pings: [UInt64: OpenPing] = [:]
  /// Of messages that are stored.
  var followed = FollowedReceipts()
  /// The server tells what becomes of those.
  var isTold = false
  var stream: Stream?
  var socket: ImpairedSocket?
  var session: ClientSession?
  var impairment: SIMPImpairment?
  var backoff: Backoff
  /// Tells late answers of an earlier attempt from those of the present one.
  var attempt: UInt64 = 0
  var sessionBegan: Instant?
  var isClosing = false
  /// In phase `waiting` the next attempt, in `preparing` its end, while closing the end of patience.
  var due = Instant.never
  var observedAddress: String?
  var shownPath = ShownPath()
  var tally = Tally()
  private var timer: LoopTimer?
  private var isDirty = false

  /// - Throws: why the store cannot be opened.
  init(
    thread: IOThread, server: ServerName, trust: TLSClientContext?, token: String,
    configuration: SIMPConnection.Configuration
  ) throws(SIMPError) {
    self.thread = thread
    self.server = server
    self.trust = trust
    self.token = token
    self.configuration = configuration
    impairment = configuration.impairment
    backoff = Backoff(
      first: Interval(configuration.reconnectDelays.first), last: Interval(configuration.reconnectDelays.last))
    let store = try configuration.openStore()
    let now = thread.loop.now
    let lock = receiptLock
    let restored = store.map { Restored($0.contents, receiptLock: lock, now: now) } ?? Restored()
    outbox = restored.outbox
    open = restored.open
    writtenLogin = StoreBatch.Login(owner: restored.owner, deviceNumber: restored.outbox.deviceNumber)
    self.restored = restored.receipts
    intake = StoredIntake(roomMessages: Int(configuration.room.messages), roomBytes: Int(configuration.room.bytes))
    inbound = InboundMessages(
      gapTimeout: Interval(configuration.gapTimeout), roomMessages: Int(configuration.room.messages))
    if configuration.isSendOnly { inbox.update { $0.finish(nil) } }
    guard let store else { return }
    takeIn(restored, store.contents, now: now)
    inbox.change { $0.handover = store.handover }
    writer = try StoreWriter(store) { [weak self] report in self?.execute { $0.handle(report) } }
  }

  // MARK: - From any thread

  /// Has `turn` called at the end of the loop's present or next turn. Many calls cost one wake-up.
  func schedule() {
    // Cleared by `turn` before it looks at what was left for it: what is left later schedules again.
    guard !isScheduled.exchange(true, ordering: .acquiringAndReleasing) else { return }
    thread.loop.execute { self.markDirty() }
  }

  func execute(_ body: @escaping @Sendable (Driver) -> Void) { thread.loop.execute { body(self) } }

  func acknowledge(_ message: TakenMessage) {
    inbox.change { $0.acknowledge(message) }
    schedule()
  }

  // MARK: - On the loop

  func markDirty() {
    thread.loop.preconditionCurrent()
    guard !isDirty, phase != .over else { return }
    isDirty = true
    thread.markDirty(self)
  }

  /// The one place where a connection's work of a turn is done and flushed.
  func turn(now: Instant) {
    isDirty = false
    isScheduled.store(false, ordering: .sequentiallyConsistent)
    takeAcknowledgements(now: now)
    takeLetters(now: now)
    switch phase {
    case .over: return
    case .idle: break
    case .waiting: if due <= now { beginAttempt(now: now) }
    case .preparing: if due <= now { attemptTimedOut(now: now) }
    case .online:
      if due <= now { return end(nil) }
      if expiry.next <= now { tokenExpires(now: now) }
      work(now: now)
    }
    if phase != .over {
      arm(now: now)
      publish()
    }
  }

  private func work(now: Instant) {
    handleEvents(now: now)
    guard let session, let stream, unwrittenLogin == nil else { return }
    let streamRoom = max(0, Self.streamQueueBytes - stream.pendingBytes)
    session.flush(now: now, streamRoom: streamRoom) { datagram, address in socket?.send(datagram, to: address) }
    stream.write(session.channel.takeStream())
    handleEvents(now: now)
    showPath()
  }

  /// BOUND: bytes that wait in the stream's queue before messages wait in the window instead.
  private static let streamQueueBytes = 256 * 1024

  private func arm(now: Instant) {
    var next = due
    if phase == .online, let session { next = min(next, session.deadline(now: now), expiry.next) }
    if timer == nil { timer = thread.loop.makeTimer { [unowned self] in markDirty() } }
    if next == .never { timer?.disarm() } else { timer?.arm(at: next) }
  }

  private func takeAcknowledgements(now: Instant) {
    let taken = inbox.change { $0.drainTaken() }
    if let writer { return write(taken, with: writer, now: now) }
    for message in taken {
      inbound.markTaken(from: message.from, device: message.device, order: message.order)
      // Without a session nothing is lost: the message is offered again, known, and receipted then.
      session?.acknowledge(from: message.from, device: message.device, order: message.order, now: now)
    }
  }

  private func takeLetters(now: Instant) {
    let letters = outgoing.change { $0.takeLetters() }
    guard !letters.isEmpty else { return }
    // They come back when they are in the store.
    if let writer { return writer.send(letters) }
    for letter in letters { enter(letter) }
    session?.wake(isAwaited: letters.contains(where: \.isAwaited))
  }

  /// A message enters the outbox: from here on it is offered until its final receipt.
  @discardableResult
  func enter(_ letter: Letter) -> (key: MessageKey, counter: UInt64) {
    do throws(Outbox.Full) {
      let (key, counter) = try outbox.append(letter.content, to: letter.user, now: letter.posted)
      open[key] = OpenMessage(
        receipt: letter.receipt, posted: letter.posted, bytes: letter.content.size, counter: counter)
      letter.receipt.identify(outbox.messageId(of: key))
      outgoing.change { $0.lastOrders[letter.user] = key.order }
      return (key, counter)
    } catch {
      preconditionFailure("the outbox refuses what was checked before: \(error)")
    }
  }

  /// Tells a state, and the counts before it: who is told looks at them next.
  func show(_ state: SIMPState) {
    publish()
    board.show(state)
  }

  // MARK: - The end

  /// Ends everything for good.
  ///
  /// - Parameter error: nil when this program wanted it.
  func end(_ error: SIMPError?) {
    guard phase != .over else { return }
    dropSession(now: thread.loop.now)
    takeAcknowledgements(now: thread.loop.now)
    phase = .over
    timer?.close()
    timer = nil
    let refusal = error ?? SIMPError(.closed, "the connection is closed")
    let letters = outgoing.update { outgoing in
      outgoing.refusal = refusal
      outgoing.isOver = true
      return outgoing.takeLetters()
    }
    guard let writer else {
      for letter in letters { letter.receipt.abandon(refusal) }
      return finishEnd(error)
    }
    // What `post` took is kept for the next time; its receipts end with the writer's report.
    if !letters.isEmpty { writer.send(letters) }
    writer.close { [self] in execute { $0.finishEnd(error) } }
  }

  private func finishEnd(_ error: SIMPError?) {
    let refusal = error ?? SIMPError(.closed, "the connection is closed")
    for message in open.values { message.receipt.abandon(refusal) }
    open = [:]
    followed.endAll()
    inbox.update { $0.finish(error) }
    standing.update { $0.end = .some(error) }
    show(.closed(error))
  }

  /// Says goodbye and ends; at once when there is nobody to say it to.
  func close() {
    guard phase != .over, !isClosing else { return }
    isClosing = true
    let now = thread.loop.now
    guard phase == .online, let session, session.isActive else { return end(nil) }
    takeAcknowledgements(now: now)
    session.logout(now: now)
    due = now + .seconds(2)
    markDirty()
  }

  /// Closes what belongs to the present session or attempt.
  func dropSession(now: Instant) {
    attempt += 1
    due = .never
    unwrittenLogin = nil
    if let session {
      session.connectionClosed(now: now)
      tally.add(session.counters)
    }
    if let socket { tally.impaired += socket.dropped }
    session = nil
    expiry = TokenExpiry()
    stream?.close()
    stream = nil
    socket?.close()
    socket = nil
    shownPath.reset()
    observedAddress = nil
    let asks = asks
    self.asks = [:]
    for answer in asks.values {
      answer(.failure(SIMPError(.connectionLost, "the connection was lost before the answer")))
    }
    let pings = pings
    self.pings = [:]
    for ping in pings.values {
      ping.answer.update { $0 = .failure(SIMPError(.connectionLost, "the connection was lost before the answer")) }
    }
  }
}
