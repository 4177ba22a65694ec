internal import SimpCore
internal import SimpRedis

/// What a login got from the store.
struct LoginGrant: Hashable, Sendable {
  var deviceNumber: UInt32
  var epoch: UInt64
  /// The store's word that tokens of the user issued up to then, in Unix seconds, are refused.
  var revokedUntil: UInt64?
}

/// What a token that is good says.
struct TokenClaims: Hashable, Sendable {
  var user: String
  /// When a session with it ends: `exp` and the leeway. Unix seconds.
  var ends = UInt64.max
  /// `iat`, in Unix seconds.
  var issued: UInt64?
  /// May send others away, and read counters.
  var isAdmin = false
}

/// Where a user's device is, for the other nodes and for whoever looks.
struct EndpointRecord: Hashable, Sendable {
  var user: String
  var device: UInt32
  var epoch: UInt64
  var connectionId: UInt64
  /// The proven address, nil without UDP.
  var address: PeerAddress?
  /// Unix milliseconds.
  var since: UInt64
}

/// Whether messages can be stored.
enum InboxState: Sendable {
  case ready
  /// The store is away, or has not said yet how durable it is.
  case away
  /// Nothing is kept for who is away: the operator wants it so, or what the store says may be lost with its machine.
  case off
}

/// What the switchboard needs from the world: the store, keys, randomness, the other reactors, and to be flushed.
protocol SwitchboardPorts: AnyObject {
  /// Why there is no room for one more login now, nil when there is. Asked before the token is looked at.
  func refusesLogins() -> Refusal?
  /// What a token says, or why it is no good.
  func claims(of token: String) -> Result<TokenClaims, LoginFailure>
  /// Numbers the session; nil when the store is away. Called back on the reactor, at once or later.
  func openSession(
    user: String, login: Login, proposedEpoch: UInt64, completion: @escaping (LoginGrant?) -> Void)
  /// Writes, rewrites or removes the endpoint of a device; fenced by epoch, repeated when the store comes back.
  func writeEndpoint(_ record: EndpointRecord)
  func removeEndpoint(_ record: EndpointRecord)
  /// Whether there is an inbox to put messages into.
  var inboxState: InboxState { get }
  /// Adds to an inbox, unless it is of somebody who never logged in and these are refused; see `InboxDirectory.append`. nil: the store did not answer, or refused. Called back on the
  /// reactor, never from inside the call, in the order of the calls.
  func append(
    _ message: InboxMessage, to user: String, knownDead: UInt64, spilling: UInt64, refusesStrangers: Bool,
    completion: @escaping (InboxAnswer?) -> Void)
  /// Reads what is in an inbox behind an entry; nil as above.
  func readInbox(
    of user: String, after: InboxEntry.ID?, count: Int, bytes: Int, completion: @escaping ([InboxEntry]?) -> Void)
  /// Removes what a device has, and writes the marks of it: not the one without the other, unless the store is too full
  /// for marks.
  ///
  /// - Parameter completion: false: to be said again.
  func confirmInbox(
    of user: String, entries: [InboxEntry.ID], marks: [Mark], completion: @escaping (Bool) -> Void)
  /// All marks of a device; nil: the store did not answer.
  func readMarks(of sender: SessionEntry.SenderDevice, completion: @escaping ([MarkSet]?) -> Void)
  /// Removes marks.
  func confirmMarks(_ marks: [Mark], completion: @escaping (Bool) -> Void)
  /// Whether a server of this name lives; nil: the store did not say.
  func isAlive(node: String, completion: @escaping (Bool?) -> Void)
  /// Keeps it in the store, for as long as `Revocations.lifetimeSeconds`, that tokens issued up to `until` are refused.
  /// Called back on the reactor with whether it is there; one that is not is asked for again when the store is back.
  func storeRevocation(user: String, until: UInt64, completion: @escaping (Bool) -> Void)
  /// How far the clocks of issuers may be ahead, in seconds.
  var leewaySeconds: UInt64 { get }
  /// What the server counts, sorted by name.
  var counterValues: [SessionAnswer.Counter] { get }
  func makeProtection(secret: [UInt8], cipher: UInt32) -> any DatagramProtection
  /// Overwrites a secret that was used, and empties it.
  func wipe(_ secret: inout [UInt8])
  func isKnown(cipher: UInt32) -> Bool
  func randomBytes(_ count: Int) -> [UInt8]
  func random() -> UInt64
  func post(_ note: Note, to reactor: UInt8)
  /// The session has something to send, or a new deadline.
  func needsFlush(_ entry: SessionEntry)
  /// The session is over: its connection closes when its stream is written.
  func sessionEnded(_ entry: SessionEntry)
  /// Of the whole process, rising with each call.
  func nextEpoch() -> UInt64
  var now: Instant { get }
  var wallClockMilliseconds: UInt64 { get }
}

struct LoginFailure: Error, Hashable {
  var refusal: Refusal
}
