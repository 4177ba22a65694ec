public import SimpCore
internal import SimpRedis
internal import SimpSupport

/// Every limit of a server in one place: what it bounds, in which unit, and why it stands where it stands. Each has a
/// flag, a counter, and a typed error for whoever meets it (wire document, section 11).
public struct ServerLimits: Sendable, Hashable {
  /// TCP connections in all. Half of what 20 000 descriptors carry: the rest is for files, Redis and the next start.
  public var connections = 10_000
  /// TCP connections from one address; of IPv6, from one /64, which is what one subscriber has. An office behind one
  /// address has fewer.
  public var connectionsPerAddress = 256
  /// Whether that holds for this machine's own addresses too: proxies and load testers come from there.
  public var isLoopbackLimited = false
  /// Connections that have not shaken hands, and of each reactor those that have not logged in: a second of each. Beyond,
  /// one of the address that has more than its share goes. A flood from a few addresses so keeps out itself.
  public var waitingConnections = 512
  /// TLS handshakes a second; more wait their turn. One costs half a millisecond: this is a quarter of a core,
  /// which those inside need not share while they want it.
  public var handshakesPerSecond = 500
  /// Logins a second: beyond, they are told when to come back. Ten thousand clients of a restarted server are back in
  /// 20 s.
  public var loginsPerSecond = 500
  /// How late the loop may come before new logins are refused for those inside. A person notices a quarter of a second.
  public var loopLag = Interval.milliseconds(250)
  /// Messages a second of one user, both channels and all sessions together; 0: any number. Far more than people write,
  /// and a tenth of what a core relays.
  public var messagesPerSecond = 10_000
  /// Bytes of messages a second, likewise.
  public var bytesPerSecond = 16 << 20
  /// Bytes of messages held in memory for all recipients of a server together. A small machine has that much.
  public var heldBytes = 256 << 20
  /// What is kept for who is away: messages and bytes of one inbox, of one sender in it, and for who never logged in.
  var inbox = InboxLimits()
  /// Messages of one inbox; 0: none is kept for anybody.
  public var inboxMessages: Int {
    get { inbox.messages }
    set { inbox.messages = newValue }
  }
  /// Bytes that one user may leave in a day with those who never logged in, whose names cost nothing.
  public var strangerBytes = 4 << 20
  /// How long a message waits there for its recipient. People come back from holidays.
  public var inboxLifetime = Interval.seconds(30 * 86_400)
  /// STORED may be said of what only the memory of Redis holds.
  public var storedMeansMemory = false
  /// Bytes that a client may leave unread on its TCP connection. Receipts of a full window take a hundredth of it.
  public var unsentBytes = 1 << 20
  /// Of each session: time to log in, windows, pending messages, size of a message.
  public var session = SessionLimits()

  /// What `connections` is exceeded by to tell those who come that it is full; then connections are closed at once.
  static let toldConnections = 64
  /// The same of `connectionsPerAddress`.
  static let toldPerAddress = 4

  public init() {}

  static let flags: [Flag] = {
    let standard = ServerLimits()
    func flag(_ name: String, _ unit: String, _ value: Int?, _ help: String) -> Flag {
      Flag(name, placeholder: unit, default: value.map { "\($0)" }, isSetting: true, help: help)
    }
    return [
      flag("connections", "COUNT", standard.connections, "TCP connections in all"),
      flag(
        "connections-per-address", "COUNT", nil,
        "TCP connections from one address or IPv6 /64 (\(standard.connectionsPerAddress); loopback: only if given)"),
      flag(
        "connections-waiting", "COUNT", standard.waitingConnections,
        "connections that have not shaken hands, and of a reactor, not logged in"),
      flag("handshakes-per-second", "COUNT", standard.handshakesPerSecond, "TLS handshakes; more wait"),
      flag("logins-per-second", "COUNT", standard.loginsPerSecond, "logins; more are told when to come back"),
      Flag(
        "login-time", placeholder: "TIME", default: "10s", isSetting: true,
        help: "from accept to login, TLS included"),
      Flag(
        "overload-lag", placeholder: "TIME", default: "250ms", isSetting: true,
        help: "lateness of the loop from which on logins are refused"),
      flag("messages-per-second", "COUNT", standard.messagesPerSecond, "messages of one user; 0: any number"),
      flag("bytes-per-second", "BYTES", standard.bytesPerSecond, "bytes of messages of one user; 0: any number"),
      flag("window-messages", "COUNT", standard.session.windowMessages, "unfinished messages a client may send"),
      flag("window-bytes", "BYTES", standard.session.windowBytes, "bytes of them"),
      flag("pending-messages", "COUNT", standard.session.pendingMessages, "unfinished messages held for one client"),
      flag("pending-bytes", "BYTES", standard.session.pendingBytes, "bytes of them"),
      flag("held-bytes", "BYTES", standard.heldBytes, "bytes of messages held for all clients together"),
      flag("inbox-messages", "COUNT", standard.inbox.messages, "messages kept for a user who is away; 0: none"),
      flag("inbox-bytes", "BYTES", standard.inbox.bytes, "bytes of them"),
      Flag(
        "inbox-lifetime", placeholder: "TIME", default: "30d", isSetting: true,
        help: "how long each of them is kept"),
      flag("inbox-sender-bytes", "BYTES", standard.inbox.senderBytes, "bytes of them from one sender"),
      flag(
        "inbox-stranger-messages", "COUNT", standard.inbox.strangerMessages,
        "messages kept for a name that never logged in"),
      flag(
        "inbox-stranger-bytes", "BYTES", standard.strangerBytes, "bytes of them that one user may send in a day"),
      Flag(
        "stored-means", placeholder: "disk|memory", default: "disk", isSetting: true,
        help: "memory: messages are kept though redis answers before its disk has them"),
      flag("unsent-bytes", "BYTES", standard.unsentBytes, "bytes a client may leave unread on TCP"),
      flag("message-bytes", "BYTES", standard.session.messageBytes, "payload of one message"),
      Flag(
        "redundancy", placeholder: "WHEN", default: "idle", isSetting: true,
        help: "off, idle or always: the last messages go twice by UDP"),
    ]
  }()

  init(_ settings: Settings) throws(UsageError) {
    func read(_ name: String, _ range: ClosedRange<Int>, into value: inout Int) throws(UsageError) {
      if let given = try settings.integer(name, in: range) { value = given }
    }
    try read("connections", 1...1_000_000, into: &connections)
    isLoopbackLimited = settings.string("connections-per-address") != nil
    try read("connections-per-address", 1...1_000_000, into: &connectionsPerAddress)
    try read("connections-waiting", 1...1_000_000, into: &waitingConnections)
    try read("handshakes-per-second", 1...1_000_000, into: &handshakesPerSecond)
    try read("logins-per-second", 1...1_000_000, into: &loginsPerSecond)
    try read("messages-per-second", 0...1_000_000_000, into: &messagesPerSecond)
    try read("bytes-per-second", 0...1 << 40, into: &bytesPerSecond)
    try read("held-bytes", WireLimits.maximumPacketBytes...1 << 40, into: &heldBytes)
    try read("inbox-messages", 0...10_000_000, into: &inbox.messages)
    try read("inbox-bytes", 0...1 << 40, into: &inbox.bytes)
    try read("inbox-sender-bytes", 0...1 << 40, into: &inbox.senderBytes)
    inboxLifetime = try Self.interval(
      settings, "inbox-lifetime", .seconds(1) ... .seconds(3650 * 86_400), inboxLifetime)
    try read("inbox-stranger-messages", 0...10_000_000, into: &inbox.strangerMessages)
    try read("inbox-stranger-bytes", 0...1 << 40, into: &strangerBytes)
    storedMeansMemory = try settings.choice("stored-means", of: ["disk", "memory"]) == "memory"
    try read("unsent-bytes", WireLimits.maximumPacketBytes...1 << 30, into: &unsentBytes)
    // The wire's own limits are the upper ends: a client may not count on more.
    try read("window-messages", 1...WireLimits.windowMessages, into: &session.windowMessages)
    try read("window-bytes", WireLimits.maximumPacketBytes...WireLimits.windowBytes, into: &session.windowBytes)
    try read("pending-messages", 1...WireLimits.windowMessages, into: &session.pendingMessages)
    try read("pending-bytes", WireLimits.maximumPacketBytes...WireLimits.windowBytes, into: &session.pendingBytes)
    try read("message-bytes", 1...WireLimits.maximumMessagePayloadBytes, into: &session.messageBytes)
    let redundancy = try settings.choice("redundancy", of: Redundancy.allCases.map(\.rawValue))
    session.redundancy = redundancy.flatMap(Redundancy.init(rawValue:)) ?? .idle
    session.loginTime = try Self.interval(
      settings, "login-time", .milliseconds(100) ... .seconds(600), session.loginTime)
    loopLag = try Self.interval(settings, "overload-lag", .milliseconds(1) ... .seconds(60), loopLag)
  }

  private static func interval(
    _ settings: Settings, _ name: String, _ range: ClosedRange<Duration>, _ standard: Interval
  ) throws(UsageError) -> Interval {
    guard let (seconds, attoseconds) = try settings.duration(name, in: range)?.components else { return standard }
    return .seconds(seconds) + Interval(nanoseconds: attoseconds / 1_000_000_000)
  }
}
