internal import SimpConnection
internal import SimpCore
internal import SimpIO
internal import SimpToken

/// All users of a mesh, on one loop with a thread of its own.
///
/// `@unchecked Sendable`: constants, and what is touched on the loop's thread only; others use `onLoop`.
final class Mesh: @unchecked Sendable {
  /// What was measured so far.
  struct Tally: Sendable {
    /// From when a message was to be sent to when its recipient has it.
    var latency = Histogram()
    /// The part of it before it was sent; open loop only.
    var lag = Histogram()
    var byTCP: UInt64 = 0
    /// Messages by their final receipt.
    var receipts: UInt64 = 0
    var refused: UInt64 = 0
    /// Answers LATER, not final.
    var later: UInt64 = 0
    /// Connections that were lost and made again.
    var losses: UInt64 = 0
    var lastArrival = Instant(nanoseconds: 0)
  }

  /// A look from another thread.
  struct Snapshot: Sendable {
    var verdict = Verdict()
    var tally = Tally()
    var counters = ChannelCounters()
    var loggedIn = 0
    var pathsUp = 0
    /// Messages without a final receipt.
    var unfinished = 0
    var cipher: UInt32 = 0
    var tls: String?
    var failure: SIMPError?
    var lastLoss: SIMPError?
  }

  let loop: EventLoop
  let server: PeerAddress
  let usesUDP: Bool
  private let plan: MeshPlan
  private let run: UInt32
  private let key: TokenKey
  private let trust: TLSClientContext?
  private let name: ServerName

  // MARK: On the loop

  private var clients: [MeshClient] = []
  private var dirty: [MeshClient] = []
  private var check: MeshCheck
  private var tally = Tally()
  private var random: SplitMix
  private var nextToConnect = 0
  private var connecting = 0
  private var wasOnline: [Bool]
  private var ends = Instant(nanoseconds: 0)
  private var schedule: Schedule?
  private var sentBySchedule: UInt64 = 0
  private var scheduleTimer: LoopTimer?
  private var turnEnd: TurnEnd?
  private var failure: SIMPError?
  private var lastLoss: SIMPError?
  private var cipher: UInt32 = 0
  private var tls: String?

  /// Logins under way at a time: a server's queue of connections to accept is short.
  private static let loginsAtATime = 64

  /// - Parameter server: an address of `place`'s server.
  init(
    _ plan: MeshPlan, place: Place, name: ServerName, server: PeerAddress, trust: TLSClientContext?, run: UInt32,
    loop: EventLoop
  ) {
    self.plan = plan
    self.run = run
    self.loop = loop
    self.name = name
    self.server = server
    self.trust = trust
    usesUDP = plan.usesUDP
    key = place.key
    random = SplitMix(state: plan.seed)
    wasOnline = Array(repeating: false, count: plan.connections)
    let hex = String(run | 1 << 24, radix: 16).dropFirst()
    let names = (0..<plan.connections).map { "mesh-\(hex)-\($0)" }
    check = MeshCheck(run: run, names: names)
    clients = names.enumerated().map { MeshClient(number: $0, user: $1, mesh: self) }
  }

  /// Runs `body` on the loop.
  func onLoop<Value: Sendable>(_ body: @escaping @Sendable (Mesh) -> Value) async -> Value {
    await withCheckedContinuation { continuation in
      loop.execute { continuation.resume(returning: body(self)) }
    }
  }

  // MARK: - What a client needs

  func makePipe() throws(TLSConfigurationError) -> any BytePipe {
    guard let trust else { return PlainPipe() }
    return try trust.makePipe(to: name.host, port: name.port)
  }

  func token(for user: String) -> String {
    do throws(TokenError) {
      return try Tokens.mint(user: user, key: key, ttlSeconds: 100_000, now: EventLoop.wallClockSeconds)
    } catch {
      failed(SIMPError(.tokenInvalid, "no token can be made: \(error)"))
      return "none"
    }
  }

  func markDirty(_ client: MeshClient) {
    guard !client.isDirty else { return }
    client.isDirty = true
    dirty.append(client)
  }

  func loggedIn(_ client: MeshClient, _ reply: LoginReply, tls: String?) {
    if !wasOnline[client.number] {
      wasOnline[client.number] = true
      connecting -= 1
      if usesUDP { cipher = reply.cipher }
      self.tls = tls
    }
    connectMore()
  }

  func arrived(_ message: IncomingMessage, at client: MeshClient) {
    let now = loop.now
    guard let payload = check.noteArrived(message.content.text, from: message.from, at: client.number) else { return }
    tally.latency.record(UInt64(max(0, (now - payload.due).nanoseconds)))
    tally.lastArrival = now
    if message.transport == .tcp { tally.byTCP += 1 }
    if schedule == nil, now < ends { post(from: client.number, due: now) }
  }

  func finished(_ state: MessageState) {
    if state == .delivered || state == .read { tally.receipts += 1 } else { tally.refused += 1 }
  }

  func wasRefusedForNow() { tally.later += 1 }

  func wasLost(_ error: SIMPError) {
    tally.losses += 1
    lastLoss = error
  }

  func failed(_ error: SIMPError) { failure = failure ?? error }

  // MARK: - The run

  /// Begins to log all in. On the loop.
  func start() {
    turnEnd = loop.addTurnEnd { [unowned self] in endTurn() }
    connectMore()
  }

  private func connectMore() {
    while connecting < Self.loginsAtATime, nextToConnect < clients.count {
      connecting += 1
      clients[nextToConnect].connect()
      nextToConnect += 1
    }
  }

  /// Sends the first messages, and goes on until `end`. On the loop.
  func beginLoad(at start: Instant, until end: Instant) {
    ends = end
    if let rate = plan.rate {
      schedule = Schedule(start: start, rate: rate, pairs: 1)
      scheduleTimer = loop.makeTimer { [unowned self] in sendDue() }
      sendDue()
    } else {
      for _ in 0..<plan.window { post(from: random.below(clients.count), due: loop.now) }
    }
  }

  /// Sends nothing more. On the loop.
  func endLoad() { ends = Instant(nanoseconds: 0) }

  private func sendDue() {
    guard let schedule else { return }
    let now = loop.now
    var due = schedule.due(sentBySchedule, pair: 0)
    while due <= now, due < ends {
      sentBySchedule += 1
      tally.lag.record(UInt64((now - due).nanoseconds))
      post(from: random.below(clients.count), due: due)
      due = schedule.due(sentBySchedule, pair: 0)
    }
    if due < ends { scheduleTimer?.arm(at: due) }
  }

  private func post(from sender: Int, due: Instant) {
    let recipient = random.below(clients.count)
    let number = check.noteSent(from: sender, to: recipient)
    let payload = Payload(
      run: run, sender: UInt32(sender), conversation: UInt32(recipient), number: number, due: due, lag: 0)
    clients[sender].post(payload.text(size: plan.size), to: clients[recipient].user, now: loop.now)
  }

  private func endTurn() {
    var index = 0
    while index < dirty.count {
      let client = dirty[index]
      client.isDirty = false
      client.work()
      index += 1
    }
    dirty.removeAll(keepingCapacity: true)
  }

  /// - Parameter isFull: looks at every client.
  func snapshot(isFull: Bool = true) -> Snapshot {
    var snapshot = Snapshot(verdict: check.result, tally: tally)
    (snapshot.cipher, snapshot.tls) = (cipher, tls)
    (snapshot.failure, snapshot.lastLoss) = (failure, lastLoss)
    guard isFull else { return snapshot }
    for client in clients {
      snapshot.counters.add(client.counters)
      if client.isLoggedIn { snapshot.loggedIn += 1 }
      if client.isPathUp { snapshot.pathsUp += 1 }
      snapshot.unfinished += client.unfinished
    }
    return snapshot
  }

  func logOut() { for client in clients { client.logOut() } }

  /// Ends everything on the loop, which its owner then closes.
  func close() {
    scheduleTimer?.close()
    scheduleTimer = nil
    turnEnd?.remove()
    turnEnd = nil
    for client in clients { client.close() }
    clients = []
    dirty = []
  }
}

extension SplitMix {
  /// 0 up to, not including, `bound`.
  mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }
}
