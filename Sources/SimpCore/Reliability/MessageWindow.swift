/// Names a message in the window of one session: its conversation (24 bits, a number the owner chose) and its order
/// in it (40 bits). One to one with the message ID, and cheap to find from an outcome, which names orders.
public struct MessageKey: Hashable, Sendable {
  public var rawValue: UInt64

  public init(conversation: UInt32, order: UInt64) { rawValue = UInt64(conversation) << 40 | order & (1 << 40 - 1) }

  public var conversation: UInt32 { UInt32(rawValue >> 40) }
  public var order: UInt64 { rawValue & (1 << 40 - 1) }
}

/// The way a packet went, or came.
public enum Transport: String, Hashable, Sendable { case udp, tcp }

/// Messages of one session that were handed over for sending and are not finished: what waits, what is under way by
/// which channel, what is to be sent again.
struct MessageWindow {
  enum State {
    /// Not sent yet.
    case queued
    /// Sent, and nothing heard.
    case flying
    /// Arrived; the outcome comes on TCP.
    case answered
    /// The peer has it.
    case accepted
  }

  struct Entry {
    var message: EncodedMessage
    var state = State.queued
    /// Copies sent before anything was lost not counted.
    var attempts: UInt16 = 0
    /// It went by TCP, be it besides UDP.
    var byTCP = false
    var inQueue = true
    var firstSent = Instant.never
    /// The last datagram that carried it.
    var lastDatagram: UInt64 = 0
    /// Datagrams below this left before the message was handed over. A message that was finished or answered LATER may
    /// come back under the same key: what is heard of its former copies says nothing about this one.
    var firstDatagram: UInt64
    var byUDP = false
  }

  // BOUND: the owner keeps count under the window of the session.
  private(set) var entries: [MessageKey: Entry] = [:]
  private(set) var bytes = 0
  private var fresh = Queue<MessageKey>()
  private var again = Queue<MessageKey>()
  private var forTCP = Queue<MessageKey>()
  private(set) var retransmissions: UInt64 = 0
  /// Bytes of all transmissions, and of the first of each message.
  private(set) var bytesSent: UInt64 = 0
  private(set) var bytesNeeded: UInt64 = 0

  var count: Int { entries.count }
  var hasFresh: Bool { !fresh.isEmpty }
  var hasUDPWork: Bool { !fresh.isEmpty || !again.isEmpty }
  var hasTCPWork: Bool { !forTCP.isEmpty }

  /// Hands a message over.
  ///
  /// - Parameters:
  ///   - byTCP: it goes by TCP from the start: offered before. What is too large for a datagram goes by TCP as well, in
  ///     its turn: it must not overtake what waits for room in flight, or the receiver would wait for all of that.
  ///   - nextDatagram: the number that the next datagram gets.
  mutating func insert(_ key: MessageKey, _ message: EncodedMessage, byTCP: Bool, nextDatagram: UInt64) {
    bytes += message.bytes.count
    entries[key] = Entry(message: message, firstDatagram: nextDatagram)
    if byTCP || !message.fitsDatagram && fresh.isEmpty { forTCP.append(key) } else { fresh.append(key) }
  }

  /// The message is finished, or answered LATER: forgets it. Queues and datagrams may still name it.
  ///
  /// - Returns: nil when it was not here.
  @discardableResult
  mutating func remove(_ key: MessageKey) -> Entry? {
    guard let entry = entries.removeValue(forKey: key) else { return nil }
    bytes -= entry.message.bytes.count
    return entry
  }

  /// The peer has the message.
  ///
  /// - Parameter datagram: the one that brought it, nil when an outcome says so.
  /// - Returns: false when that was known, or the message is finished.
  mutating func accept(_ key: MessageKey, datagram: UInt64? = nil) -> Bool {
    guard let entry = entries[key], entry.state != .accepted, datagram ?? .max >= entry.firstDatagram else {
      return false
    }
    entries[key]?.state = .accepted
    return true
  }

  /// The message arrived in that datagram; whether it was taken is said on TCP.
  mutating func markAnswered(_ key: MessageKey, datagram: UInt64) {
    guard let entry = entries[key], entry.state == .flying, datagram >= entry.firstDatagram else { return }
    entries[key]?.state = .answered
  }

  /// A datagram with the message is lost: sends it again, unless a later datagram carries it.
  mutating func markLost(_ key: MessageKey, datagram: UInt64) {
    guard let entry = entries[key], entry.state == .flying, entry.lastDatagram == datagram, !entry.inQueue else {
      return
    }
    entries[key]?.inQueue = true
    again.append(key)
  }

  /// Sends the message by TCP as well, once.
  ///
  /// - Returns: false when it went by TCP before, or arrived.
  @discardableResult
  mutating func escalate(_ key: MessageKey) -> Bool {
    guard let entry = entries[key], !entry.byTCP, entry.state == .flying || entry.state == .queued else { return false }
    entries[key]?.byTCP = true
    forTCP.append(key)
    return true
  }

  /// Everything that waits for UDP goes by TCP instead, and what is under way by UDP goes by TCP as well.
  ///
  /// - Returns: how many went besides UDP.
  mutating func divertToTCP() -> Int {
    var keys: [MessageKey] = []
    while let key = again.popFirst() {
      entries[key]?.inQueue = false
      keys.append(key)
    }
    while let key = fresh.popFirst() {
      if entries[key] != nil { forTCP.append(key) }
    }
    keys += entries.filter { $0.value.state == .flying && $0.value.byUDP && !$0.value.byTCP }.map(\.key)
    return keys.sorted { $0.rawValue < $1.rawValue }.count { escalate($0) }
  }

  /// Messages that were first sent by UDP at least `age` ago, and not heard of: for escalation.
  func stale(since age: Interval, now: Instant) -> [MessageKey] {
    entries.filter { $0.value.state == .flying && !$0.value.byTCP && $0.value.firstSent + age <= now }.map(\.key)
      .sorted { $0.rawValue < $1.rawValue }
  }

  /// What went by TCP alone at least `age` ago, and is not heard of, goes by UDP as well: a TCP connection that stalls
  /// in its own timeouts must not hold up what a datagram can carry.
  mutating func assistByUDP(since age: Interval, now: Instant) {
    let keys = entries.filter {
      $0.value.state == .flying && $0.value.byTCP && !$0.value.byUDP && !$0.value.inQueue
        && $0.value.firstSent + age <= now
        && $0.value.message.fitsDatagram
    }
    for key in keys.map(\.key).sorted(by: { $0.rawValue < $1.rawValue }) {
      entries[key]?.inQueue = true
      again.append(key)
    }
  }

  /// The peer had the message and it was never finished: offers it again by TCP.
  mutating func offerAgain(_ key: MessageKey) {
    guard let state = entries[key]?.state, state == .accepted || state == .answered else { return }
    entries[key]?.state = .queued
    entries[key]?.byTCP = true
    entries[key]?.byUDP = true  // it went there, or must not: the offer is for TCP
    forTCP.append(key)
  }

  // MARK: - Sending

  /// The next message for a datagram that has `room` bytes left: what was lost goes before what is new.
  mutating func nextForUDP(room: Int) -> MessageKey? {
    while let key = again.first {
      guard let entry = entries[key], entry.state == .flying, entry.inQueue else {
        again.removeFirst()
        entries[key]?.inQueue = false
        continue
      }
      return entry.message.bytes.count <= room ? key : nil
    }
    while let key = fresh.first {
      guard let entry = entries[key], entry.state == .queued else {
        fresh.removeFirst()
        continue
      }
      guard entry.message.fitsDatagram else {
        fresh.removeFirst()
        forTCP.append(key)
        continue
      }
      return entry.message.bytes.count <= room ? key : nil
    }
    return nil
  }

  /// Takes what `nextForUDP` named out of its queue, or sends a message again as a probe.
  ///
  /// - Returns: its bytes, and whether it was never sent before.
  mutating func sendByUDP(_ key: MessageKey, datagram: UInt64, now: Instant) -> (EncodedMessage, isFirst: Bool)? {
    if again.first == key { again.removeFirst() } else if fresh.first == key { fresh.removeFirst() }
    return send(key, now: now) { entry in
      entry.byUDP = true
      entry.lastDatagram = datagram
    }
  }

  /// Sends a message that is under way once more, and nothing is lost: no attempt, and no retransmission.
  ///
  /// - Returns: nil when it is finished, or arrived, or is in that datagram.
  mutating func copyByUDP(_ key: MessageKey, datagram: UInt64, room: Int) -> EncodedMessage? {
    guard let entry = entries[key], entry.state == .flying, entry.byUDP, !entry.inQueue,
      entry.lastDatagram != datagram, entry.message.bytes.count <= room
    else { return nil }
    entries[key]?.lastDatagram = datagram
    bytesSent += UInt64(entry.message.bytes.count)
    return entry.message
  }

  /// The next message for TCP, nil when none waits.
  mutating func sendByTCP(now: Instant) -> (key: MessageKey, message: EncodedMessage)? {
    while let key = forTCP.popFirst() {
      guard let entry = entries[key], entry.state == .queued || entry.state == .flying else { continue }
      guard let (message, _) = send(key, now: now, mark: { $0.byTCP = true }) else { continue }
      return (key, message)
    }
    return nil
  }

  private mutating func send(
    _ key: MessageKey, now: Instant, mark: (inout Entry) -> Void
  ) -> (EncodedMessage, isFirst: Bool)? {
    guard var entry = entries[key] else { return nil }
    let isFirst = entry.attempts == 0
    let bytes = UInt64(entry.message.bytes.count)
    bytesSent += bytes
    if isFirst {
      entry.firstSent = now
      bytesNeeded += bytes
    } else {
      retransmissions += 1
    }
    entry.attempts = entry.attempts == .max ? .max : entry.attempts + 1
    entry.state = .flying
    entry.inQueue = false
    mark(&entry)
    entries[key] = entry
    return (entry.message, isFirst)
  }
}

extension EncodedMessage {
  /// Alone in a datagram of the largest size.
  fileprivate var fitsDatagram: Bool { bytes.count <= WireLimits.maximumDatagramPlaintextBytes }
}
