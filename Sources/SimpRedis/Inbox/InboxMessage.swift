internal import SimpCore

/// A message on its way into an inbox.
public struct InboxMessage: Sendable {
  /// The sender's user name and device number, 1 to 2^24 - 1.
  public let from: String
  public let device: UInt32
  /// The message's place in the conversation of this device with the user, and the lowest one there without a final
  /// receipt: `floor <= order < 2^40`.
  public let order: UInt64
  public let floor: UInt64
  /// Any bytes.
  public let payload: [UInt8]
  /// When its time is over, in milliseconds of Unix time, below 2^53.
  public let expires: UInt64
  /// The message of the order before goes the same way just before it, and without that this one is not added: else it
  /// would stand in front of it when that is offered again.
  public let follows: Bool

  /// The caller has checked the ranges; names are checked when they are used.
  public init(
    from: String, device: UInt32, order: UInt64, floor: UInt64, payload: [UInt8], expires: UInt64,
    follows: Bool = false
  ) {
    precondition(device < 1 << 24, "a device number has 24 bits")
    precondition(floor <= order && order < 1 << 40, "an order has 40 bits, and the floor is not above it")
    precondition(expires < 1 << 53, "a time has at most 53 bits")
    self.from = from
    self.device = device
    self.order = order
    self.floor = floor
    self.payload = payload
    self.expires = expires
    self.follows = follows
  }
}

/// BOUND: what an inbox holds at most. What does not fit is refused; nothing unread is removed for it.
public struct InboxLimits: Hashable, Sendable {
  /// Messages of one inbox.
  public var messages = 100_000
  /// Bytes of one inbox, and of one sender in it: those of the payload and `entryOverheadBytes` for each message.
  public var bytes = 64 << 20
  public var senderBytes = 16 << 20
  /// Messages for a user who never logged in.
  public var strangerMessages = 100
  /// Ranges of orders that are remembered for one sender's device, above its floor.
  public var ranges = 128
  /// Devices of senders that are remembered; beyond it those go first that have had nothing in the inbox for longest.
  public var senderDevices = 4096

  /// What a message counts besides its payload, so that many small ones have a limit, too.
  public static let entryOverheadBytes = 64

  public init() {}
}

/// What became of a message that was to go into an inbox.
public enum InboxAnswer: Hashable, Sendable {
  public enum Limit: Int, CaseIterable, Sendable {
    case messages = 1
    case bytes, senderBytes, strangerMessages, ranges, senderDevices
  }

  /// It is in the inbox, to the durability of Redis; whether that is of somebody who never logged in.
  case stored(InboxEntry.ID, toStranger: Bool)
  /// It was in the inbox before, or is: what was said of it then holds.
  case duplicate
  /// Nothing was done: the user's device is live, at a session of this epoch on this node.
  case live(node: String, epoch: UInt64)
  /// Nothing was done: the message before it, that it follows, is not in the inbox.
  case gap
  /// Nothing was done: there is no room.
  case full(Limit)

  /// The message is in the inbox, or was.
  public var isThere: Bool {
    switch self {
    case .stored, .duplicate: true
    case .live, .gap, .full: false
    }
  }
}
