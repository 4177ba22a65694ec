internal import SimpCore
internal import SimpRedis

/// How far a session is with its user's inbox, and what waits for that.
///
/// The reactor of the session alone decides whether its device is live; the scripts of the store see to it that an inbox
/// with something in it and a live endpoint never stand together.
struct InboxProgress {
  enum Phase {
    /// Its endpoint is being written: nobody knows yet whether the inbox is empty.
    case entering
    /// Something is in the inbox: the device gets messages from there alone.
    case catchingUp
    /// Everything there was read. It has to be confirmed, and the endpoint to be written again.
    case levelling
    /// Nothing is in the inbox: messages go to the device.
    case live
  }

  var phase = Phase.entering
  /// Came in `entering` or `levelling`, which are short, in their order.
  // BOUND: as many as the session has room for, and bytes of all that the reactor holds.
  private(set) var waiting: [Relay] = []
  private(set) var waitingBytes = 0
  /// Where each stands in `waiting`.
  private var waitingPlaces: [MessageName: Int] = [:]
  /// Since when the session has no room for more, but for what came free and was not half of it.
  var fullSince: Instant?
  static let fullBeforeSpill = Interval.seconds(1)
  /// Messages for the inbox that have no answer yet.
  var appends = 0
  /// The endpoint is being written, to become live.
  var isAsked = false
  /// The store has a newer session of the user.
  var isSuperseded = false
  /// Somebody else added to the inbox since the endpoint was last written: `live` as the answer says nothing then.
  var isDoubtful = false

  /// The last entry that was handed over.
  var cursor: InboxEntry.ID?
  var isReading = false
  /// How often reading began anew: an answer to what was asked before that is not taken.
  private(set) var rewinds = 0
  // BOUND: the window of the session.
  /// Entries that the device was handed and has not confirmed.
  var handedOver: [MessageKey: InboxEntry.ID] = [:]
  // BOUND: what was pending when the session was live last.
  private var copies: [MessageName: Copy] = [:]
  // BOUND: as `handedOver`; none is read while more than that waits.
  /// Entries that the device has and the store does not know of yet.
  var confirmed: [ConfirmedEntry] = []
  /// Of them those the store is being told of.
  var confirming = 0
  /// When to go on after a failure.
  var wake = Instant.never
  /// Messages handed over since it was last live, for the log.
  var handedOverCount = 0

  /// What was read may be read again, from the oldest on.
  mutating func rewind() {
    cursor = nil
    rewinds += 1
  }

  /// Nothing read waits for the device or the store.
  var isClear: Bool { handedOver.isEmpty && confirmed.isEmpty && confirming == 0 && !isReading && appends == 0 }

  struct MessageName: Hashable {
    var from: String
    var device: UInt32
    var order: UInt64
  }

  private static func name(_ relay: Relay) -> MessageName {
    MessageName(from: relay.from, device: relay.device, order: relay.order)
  }

  /// Whether a message waits. Its sender may have come back as another session: it is told there.
  mutating func isWaiting(_ name: MessageName, origin: SessionAddress) -> Bool {
    guard !waitingPlaces.isEmpty, let place = waitingPlaces[name] else { return false }
    waiting[place].origin = origin
    return true
  }

  mutating func wait(_ relay: Relay) {
    waitingPlaces[Self.name(relay)] = waiting.count
    waiting.append(relay)
    waitingBytes += relay.message.bytes.count
  }

  /// What waited; nothing does any more.
  mutating func takeWaiting() -> [Relay] {
    defer {
      waiting = []
      waitingBytes = 0
      waitingPlaces = [:]
    }
    return waiting
  }

  // MARK: - Copies

  /// A message that the device has in hand, and that goes into the inbox so that what is spilled comes behind it.
  enum Copy: Equatable {
    case underWay
    case stored(InboxEntry.ID)
    /// The device has it; the store has not answered yet.
    case delivered

    var isStored: Bool { if case .stored = self { true } else { false } }
  }

  mutating func beginCopy(of relay: Relay) { copies[Self.name(relay)] = .underWay }

  /// The store has answered.
  ///
  /// - Parameter id: nil when it did not take the copy, or had the message before.
  /// - Returns: whether the device has the message by now, so that the entry goes again.
  mutating func copied(_ relay: Relay, as id: InboxEntry.ID?) -> Bool {
    let name = Self.name(relay)
    guard let copy = copies[name] else { return false }
    let isDelivered = copy == .delivered
    copies[name] = isDelivered ? nil : id.map { .stored($0) }
    return isDelivered
  }

  func copy(_ name: MessageName) -> Copy? { copies.isEmpty ? nil : copies[name] }

  /// The device has a message, or gives it back.
  mutating func endCopy(_ name: MessageName, isDelivered: Bool) {
    let isUnderWay = copies[name] == .underWay
    copies[name] = isUnderWay && isDelivered ? .delivered : nil
  }
}
