internal import SimpCore

/// A session with what the switchboard keeps about it. Touched only on its reactor.
final class SessionEntry {
  let session: ServerSession
  /// What it sent and was answered LATER.
  var deferrals = Deferrals()
  /// What it sent and is held by sessions of this server.
  var unfinished = Unfinished()
  /// What it sent and was told DELIVERED of.
  var finished = FinishedOrders()
  /// How far it is with what came while its user was away.
  var inbox = InboxProgress()
  /// How far it is with what became of messages it sent before.
  var marks = MarkProgress()
  /// How much its user sends; nil before login.
  var rate: UserRate?
  /// Why its login will be refused, known since it connected.
  var turnedAway: Refusal?
  /// Set by the reactor while it has not logged in.
  var isWaiting = false
  /// What its token says.
  var claims = TokenClaims(user: "")
  // BOUND: checking a signature costs much more than sending a packet.
  var renewals = TokenBucket(perSecond: 1, burst: SessionEntry.renewalBurst)
  static let renewalBurst = 8
  /// The login under way, until it is accepted.
  var since: UInt64 = 0
  /// Set by the reactor while the session waits for its flush.
  var isDirty = false
  /// What the server's counters have of it, and whether the reactor will add to them.
  var counted = ChannelCounters()
  var isToCount = false
  /// The deadline the reactor's heap holds for it.
  var scheduled = Instant.never

  // BOUND: a sender has a record while messages of it are pending here; the window bounds those.
  private var handles: [SenderDevice: UInt32] = [:]
  private(set) var senders: [UInt32: SenderRecord] = [:]
  private var nextHandle: UInt32 = 0

  init(session: ServerSession) { self.session = session }

  struct SenderDevice: Hashable {
    var user: String
    var device: UInt32
  }

  /// Pending messages of one sender device to this session.
  struct SenderRecord {
    var sender: SenderDevice
    /// Where reports go: the session that last sent.
    /// nil while no session sent any of them: they came from the inbox.
    var origin: SessionAddress?
    // BOUND: the window of the session.
    /// Orders of the pending messages, ascending.
    var pending: [UInt64] = []

    /// Most messages come in order, and are finished in order.
    mutating func insert(_ order: UInt64) {
      if let last = pending.last, last >= order {
        let index = position(of: order)
        if pending[index] != order { pending.insert(order, at: index) }
      } else {
        pending.append(order)
      }
    }

    mutating func remove(_ order: UInt64) {
      let index = position(of: order)
      if index < pending.count, pending[index] == order { pending.remove(at: index) }
    }

    /// Whether the pending orders and this one lie within one window.
    func spansWindow(with order: UInt64) -> Bool {
      guard let lowest = pending.first, let highest = pending.last else { return true }
      return max(order, highest) - min(order, lowest) < WireLimits.orderWindow
    }

    func pending(in range: ClosedRange<UInt64>) -> ArraySlice<UInt64> {
      let start = position(of: range.lowerBound)
      return pending[start...].prefix { $0 <= range.upperBound }
    }

    /// Where `order` is, or belongs.
    private func position(of order: UInt64) -> Int {
      var range = 0..<pending.count
      while !range.isEmpty {
        let middle = range.lowerBound + range.count / 2
        if pending[middle] < order { range = middle + 1..<range.upperBound } else { range = range.lowerBound..<middle }
      }
      return range.lowerBound
    }
  }

  /// The handle of a sender, which is the conversation in message keys.
  func handle(of user: String, device: UInt32) -> UInt32? { handles[SenderDevice(user: user, device: device)] }

  /// Whether an order can be told apart from those of the sender that are pending here: they span one window at most,
  /// so that a range in an outcome costs no more than that.
  func isWithinWindow(from user: String, device: UInt32, order: UInt64) -> Bool {
    guard let handle = handle(of: user, device: device), let record = senders[handle] else { return true }
    return record.spansWindow(with: order)
  }

  /// Whether later messages of the sender are pending here.
  func isBelowPending(from user: String, device: UInt32, order: UInt64) -> Bool {
    guard let handle = handle(of: user, device: device), let highest = senders[handle]?.pending.last else {
      return false
    }
    return order < highest
  }

  /// Whether all of these orders of the sender are pending here.
  func holdsAll(_ orders: Range<UInt64>, from user: String, device: UInt32) -> Bool {
    guard let handle = handle(of: user, device: device), let record = senders[handle], !orders.isEmpty else {
      return false
    }
    return record.pending(in: orders.lowerBound...(orders.upperBound - 1)).count == orders.count
  }

  /// Notes a message that was handed to the session.
  func add(from user: String, device: UInt32, order: UInt64, origin: SessionAddress?) -> MessageKey {
    let sender = SenderDevice(user: user, device: device)
    let handle = handles[sender] ?? begin(sender, origin: origin)
    if let origin { senders[handle]?.origin = origin }
    senders[handle]?.insert(order)
    return MessageKey(conversation: handle, order: order)
  }

  /// The sender came back as another session: reports go there.
  func setOrigin(_ origin: SessionAddress, handle: UInt32) { senders[handle]?.origin = origin }

  /// A message is finished.
  func remove(_ key: MessageKey) {
    senders[key.conversation]?.remove(key.order)
    if let record = senders[key.conversation], record.pending.isEmpty {
      senders[key.conversation] = nil
      handles[record.sender] = nil
    }
  }

  private func begin(_ sender: SenderDevice, origin: SessionAddress?) -> UInt32 {
    // 24 bits of a key; one in use is skipped.
    repeat { nextHandle = (nextHandle + 1) & 0xFF_FFFF } while senders[nextHandle] != nil
    handles[sender] = nextHandle
    senders[nextHandle] = SenderRecord(sender: sender, origin: origin)
    return nextHandle
  }
}
