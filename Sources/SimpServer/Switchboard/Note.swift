internal import SimpCore

/// A session of this server: its reactor, and the number it has there.
struct SessionAddress: Hashable, Sendable {
  var reactor: UInt8
  var session: UInt64
}

/// The live session of a user.
struct Location: Hashable, Sendable {
  var address: SessionAddress
  /// Of two logins of one user the higher epoch stays.
  var epoch: UInt64
}

/// What reactors tell one another, in order, in batches.
enum Note: Sendable {
  /// A message for a session of the other reactor. Whoever sent this holds the message no more.
  case relay(Relay)
  /// What became of a message that came from the other reactor.
  case report(Report)
  /// A message from the other reactor was a copy: it is not held once more.
  case copyDropped(origin: SessionAddress, bytes: Int)
  case entered(user: String, Location)
  case left(user: String, Location)
  case kicked(Kick)
  /// A message for a user of whom nothing was known; looked at again behind what the others told meanwhile.
  case again(Relay, knownDead: UInt64)
  /// Something was added to the user's inbox past an endpoint that stood there as live.
  case stored(user: String)
  /// The store has a mark whose sender may be there.
  case marked(Mark)
}

/// A user is sent away.
struct Kick: Sendable {
  var user: String
  /// Tokens issued up to then are refused, in Unix seconds.
  var until: UInt64
  /// For the user; may be empty.
  var reason: String
}

struct Relay: Sendable {
  var to: String
  /// nil while nobody knows of a session.
  var location: Location?
  var from: String
  var device: UInt32
  var order: UInt64
  /// The lowest order of the conversation that its sender has no final receipt for.
  var floor: UInt64
  var messageId: UInt64
  var message: EncodedMessage
  var origin: SessionAddress
}

struct Report: Sendable {
  var origin: SessionAddress
  /// Whom the message was for.
  var recipient: String
  var order: UInt64
  /// Of the message as it was held.
  var bytes: Int
  var state: MessageState
  var code = ErrorCode.unspecified
  var retryAfter = Interval.zero
  /// False: its sender's session was told before that it is stored, and counts it no more.
  var isCounted = true
}
