internal import SimpCore

/// A session with what the switchboard keeps about it. Touched only on its reactor.
final class SessionEntry {
  let session: ServerSession
  /// What it sent and was answered LATER.
  var deferrals = Deferrals()
  /// The login under way, until it is accepted.
  var since: UInt64 = 0
  /// Set by the reactor while the session waits for its flush.
  var isDirty = false
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
    var origin: SessionAddress
    var lowest: UInt64
    var highest: UInt64
    var pending: Int
  }

  /// The handle of a sender, which is the conversation in message keys.
  func handle(of user: String, device: UInt32) -> UInt32? { handles[SenderDevice(user: user, device: device)] }

  /// Whether an order can be told apart from those of the sender that are pending here: they span one window at most,
  /// so that a range in an outcome costs no more than that.
  func isWithinWindow(from user: String, device: UInt32, order: UInt64) -> Bool {
    guard let handle = handle(of: user, device: device), let record = senders[handle] else { return true }
    return max(order, record.highest) - min(order, record.lowest) < WireLimits.orderWindow
  }

  /// Whether later messages of the sender are pending here.
  func isBelowPending(from user: String, device: UInt32, order: UInt64) -> Bool {
    guard let handle = handle(of: user, device: device), let record = senders[handle] else { return false }
    return order < record.highest
  }

  /// Notes a message that was handed to the session.
  func add(from user: String, device: UInt32, order: UInt64, origin: SessionAddress) -> MessageKey {
    let sender = SenderDevice(user: user, device: device)
    let handle = handles[sender] ?? begin(sender, order: order, origin: origin)
    if var record = senders[handle] {
      record.origin = origin
      record.pending += 1
      record.lowest = min(record.lowest, order)
      record.highest = max(record.highest, order)
      senders[handle] = record
    }
    return MessageKey(conversation: handle, order: order)
  }

  /// The sender came back as another session: reports go there.
  func setOrigin(_ origin: SessionAddress, handle: UInt32) { senders[handle]?.origin = origin }

  /// A message is finished.
  func remove(_ key: MessageKey) {
    guard let record = senders[key.conversation] else { return }
    if record.pending == 1 {
      senders[key.conversation] = nil
      handles[record.sender] = nil
    } else {
      senders[key.conversation]?.pending -= 1
    }
  }

  private func begin(_ sender: SenderDevice, order: UInt64, origin: SessionAddress) -> UInt32 {
    // 24 bits of a key; one in use is skipped.
    repeat { nextHandle = (nextHandle + 1) & 0xFF_FFFF } while senders[nextHandle] != nil
    handles[sender] = nextHandle
    senders[nextHandle] = SenderRecord(sender: sender, origin: origin, lowest: order, highest: order, pending: 0)
    return nextHandle
  }
}
