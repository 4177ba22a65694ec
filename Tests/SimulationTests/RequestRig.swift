import SimpSupport

@testable import SimpCore
@testable import SimpRedis
@testable import SimpServer

/// The switchboards of a server with two reactors, without a network: connections are byte arrays. A token is
/// `USER`, with words behind it: `admin`, `issued=SECONDS`, `ends=SECONDS`.
final class RequestRig {
  private(set) var ports: [RigPorts] = []
  let registry = CounterRegistry()
  var now = Instant(nanoseconds: 1_000_000_000)
  /// Of now, in seconds of Unix time.
  var wallClock: UInt64 { 1_800_000_000 + now.nanoseconds / 1_000_000_000 - 1 }
  /// What the store was told, and whether it can be reached.
  var stored: [String: UInt64] = [:]
  var isStoreUp = true
  let rates: UserRates
  fileprivate var lastEpoch: UInt64 = 0

  init(limits: ServerLimits = ServerLimits()) {
    rates = UserRates(limits)
    for index in 0..<2 { ports.append(RigPorts(rig: self, index: UInt8(index), limits: limits)) }
  }

  /// A session of `token`, logged in or refused.
  func connect(_ token: String, reactor: Int = 0, sendOnly: Bool = false) -> RigClient {
    let client = RigClient(rig: self, ports: ports[reactor])
    var login = Login()
    login.token = token
    login.outboxId = 5
    login.sendOnly = sendOnly
    client.send(.login, login.append)
    return client
  }

  /// Lets time pass, and sessions notice.
  func pass(_ interval: Interval) {
    now = now + interval
    for port in ports {
      for entry in Array(port.board.entries.values) { entry.session.flush(now: now, streamRoom: 1 << 20) { _, _ in } }
    }
  }
}

/// One end of a connection.
final class RigClient {
  let rig: RequestRig
  let entry: SessionEntry

  init(rig: RequestRig, ports: RigPorts) {
    self.rig = rig
    entry = ports.board.begin(now: rig.now)
  }

  func send(_ command: Command, _ payload: (inout [UInt8]) -> Void) {
    var bytes: [UInt8] = []
    PacketWriter.append(command, sequence: 9, to: &bytes, payload: payload)
    entry.session.receive(stream: bytes.span, now: rig.now)
  }

  /// Asks, and gives the answer, or why there is none.
  func ask(_ request: SessionRequest) -> Result<SessionAnswer, Refusal>? {
    _ = packets()
    send(request.command, request.append)
    for (header, payload) in packets() where header.command == request.command && header.sequence == 9 {
      if header.flags.contains(.error) { return (try? Refusal(reading: payload.span)).map { .failure($0) } }
      return (try? SessionAnswer(header.command, reading: payload.span)).flatMap { $0 }.map { .success($0) }
    }
    return nil
  }

  /// The code that refused the login, or ended the session; nil while it lives.
  var end: ErrorCode? {
    guard entry.session.isEnded else { return nil }
    let last = packets().last { [.ended, .login].contains($0.header.command) }
    return last.flatMap { try? Refusal(reading: $0.payload.span) }?.code
  }

  func packets() -> [(header: PacketHeader, payload: [UInt8])] {
    var assembler = PacketAssembler(limit: WireLimits.maximumPacketBytes)
    let stream = entry.session.takeStream()
    assembler.append(stream.span)
    var found: [(PacketHeader, [UInt8])] = []
    while let packet = try? assembler.next(), let header = try? PacketHeader(reading: packet.span, limit: packet.count)
    {
      found.append((header, Array(packet[16...])))
    }
    return found
  }
}

/// What a switchboard has asked the store and has no answer to.
final class StoreQuestions {
  var state = InboxState.ready
  var appends: [(message: InboxMessage, answer: (InboxAnswer?) -> Void)] = []
  var reads: [(after: InboxEntry.ID?, answer: ([InboxEntry]?) -> Void)] = []
  var removals: [(entries: [InboxEntry.ID], answer: (Bool) -> Void)] = []
}

/// What a switchboard of the rig needs.
final class RigPorts: SwitchboardPorts {
  unowned let rig: RequestRig
  private(set) var board: Switchboard!

  init(rig: RequestRig, index: UInt8, limits: ServerLimits) {
    self.rig = rig
    board = Switchboard(
      reactor: index, reactors: 2, node: "rig", udpPort: 0, keyLimits: KeyLimits(), ports: self, log: .silent,
      counters: ServerCounters(rig.registry), limits: limits, rates: rig.rates)
  }

  func refusesLogins() -> Refusal? { nil }

  func claims(of token: String) -> Result<TokenClaims, LoginFailure> {
    let words = token.split(separator: " ")
    guard let user = words.first else {
      return .failure(LoginFailure(refusal: Refusal(.tokenInvalid, "no token")))
    }
    func number(_ name: String) -> UInt64? {
      words.first { $0.hasPrefix(name + "=") }.flatMap { UInt64($0.dropFirst(name.count + 1)) }
    }
    var claims = TokenClaims(user: String(user))
    claims.isAdmin = words.contains("admin")
    claims.issued = words.contains("undated") ? nil : number("issued") ?? rig.wallClock
    claims.ends = number("ends") ?? .max
    guard claims.ends > rig.wallClock else {
      return .failure(LoginFailure(refusal: Refusal(.tokenExpired, "over")))
    }
    return .success(claims)
  }

  func openSession(
    user: String, login: Login, proposedEpoch: UInt64, completion: @escaping (LoginGrant?) -> Void
  ) {
    completion(LoginGrant(deviceNumber: 1, epoch: proposedEpoch, revokedUntil: rig.isStoreUp ? rig.stored[user] : nil))
  }

  func storeRevocation(user: String, until: UInt64, completion: @escaping (Bool) -> Void) {
    if rig.isStoreUp { rig.stored[user] = until }
    completion(rig.isStoreUp)
  }

  func post(_ note: Note, to reactor: UInt8) { rig.ports[Int(reactor)].board.receive(note, now: rig.now) }
  private(set) var endpoints: [EndpointRecord] = []
  /// A store that takes messages, and answers when the test has it answer; nil: it takes none.
  var questions: StoreQuestions?

  func writeEndpoint(_ record: EndpointRecord) {
    endpoints.append(record)
    if questions == nil { board.endpointWritten(record, state: .live, now: rig.now) }
  }
  func removeEndpoint(_ record: EndpointRecord) {}
  var inboxState: InboxState { questions?.state ?? .off }
  func append(
    _ message: InboxMessage, to user: String, knownDead: UInt64, spilling: UInt64, refusesStrangers: Bool,
    completion: @escaping (InboxAnswer?) -> Void
  ) {
    guard let questions else { return completion(nil) }
    questions.appends.append((message, completion))
  }
  func readInbox(
    of user: String, after: InboxEntry.ID?, count: Int, bytes: Int, completion: @escaping ([InboxEntry]?) -> Void
  ) {
    guard let questions else { return completion(nil) }
    questions.reads.append((after, completion))
  }
  func confirmInbox(
    of user: String, entries: [InboxEntry.ID], marks: [Mark], completion: @escaping (Bool) -> Void
  ) {
    guard let questions else { return completion(false) }
    questions.removals.append((entries, completion))
  }
  func readMarks(of sender: SessionEntry.SenderDevice, completion: @escaping ([MarkSet]?) -> Void) { completion(nil) }
  func confirmMarks(_ marks: [Mark], completion: @escaping (Bool) -> Void) { completion(false) }
  func isAlive(node: String, completion: @escaping (Bool?) -> Void) { completion(nil) }
  func makeProtection(secret: [UInt8], cipher: UInt32) -> any DatagramProtection {
    ChecksumProtection(secret: secret, isServer: true) { _, _, _ in }
  }
  func isKnown(cipher: UInt32) -> Bool { false }
  func randomBytes(_ count: Int) -> [UInt8] { Array(repeating: 7, count: count) }
  func random() -> UInt64 { 7 }
  func wipe(_ bytes: inout [UInt8]) { bytes = [] }
  func needsFlush(_ entry: SessionEntry) {}
  func sessionEnded(_ entry: SessionEntry) {}
  func nextEpoch() -> UInt64 {
    rig.lastEpoch += 1
    return rig.lastEpoch
  }
  var leewaySeconds: UInt64 { 5 }
  var counterValues: [SessionAnswer.Counter] {
    rig.registry.values.map { SessionAnswer.Counter(name: $0.key, value: $0.value) }.sorted { $0.name < $1.name }
  }
  var now: Instant { rig.now }
  var wallClockMilliseconds: UInt64 { 1_800_000_000_000 + rig.now.nanoseconds / 1_000_000 - 1000 }
}
