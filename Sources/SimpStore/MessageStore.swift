internal import SimpCore

/// An outbox and received messages in a file: SQLite in WAL mode, every commit on the disk (`synchronous=FULL`) before it
/// counts. What was committed survives the process and the machine at any instant.
///
/// One thread at a time; not `Sendable`. One process at a time: the lock is SQLite's own on the file, it ends with the
/// process. Bodies lie in it in clear text; the file is for its user alone (mode 0600).
public final class MessageStore {
  public let path: String
  public let limits: StoreLimits
  /// What it held when it was opened.
  public let contents: StoreContents
  /// Where to note what the application gets; see there.
  public let handover: HandoverLog

  let database: Database
  private let statements: Statements
  /// The unfinished messages, by counter: their bytes.
  private var sizes: [UInt64: Int]
  private var outboxBytes: Int
  private var counter: UInt64
  private var nextOrders: [String: UInt64]
  private var lastReceived: UInt64
  private var receivedCount: Int
  private var markCount: Int
  private var commits = 0

  /// Opens the store, or makes it when there is no such file.
  ///
  /// - Throws: anything of `StoreError` but `full`.
  public init(path: String, limits: StoreLimits = StoreLimits()) throws(StoreError) {
    self.path = path
    self.limits = limits
    let opening = try StoreOpening(path: path, limits: limits)
    database = opening.database
    handover = opening.handover
    contents = opening.contents
    lastReceived = opening.lastReceived
    statements = try Statements(database)
    counter = contents.outbox.counter
    sizes = [:]
    nextOrders = [:]
    for message in contents.outbox.messages { sizes[message.counter] = message.content.size }
    for (user, order) in contents.outbox.nextOrders { nextOrders[user] = order }
    outboxBytes = sizes.values.reduce(0, +)
    receivedCount = contents.received.count
    markCount = contents.marks.count
  }

  /// Messages without a final receipt.
  public var unfinished: Int { sizes.count }
  /// Messages that came and were not acknowledged.
  public var received: Int { receivedCount }

  /// Commits all of a batch or, when it throws, nothing. When it returns, the batch is on the disk.
  ///
  /// - Throws: `full`; `diskFull`, `readOnly`, `damaged`, `failed`.
  public func commit(_ batch: StoreBatch) throws(StoreError) -> StoreNumbers {
    try checkRoom(for: batch)
    var numbers = StoreNumbers()
    var (counter, lastReceived) = (counter, lastReceived)
    var orders: [String: UInt64] = [:]
    var newMarks = 0
    var gone = 0
    try database.transaction { () throws(StoreError) in
      for (content, user) in batch.sent {
        counter += 1
        let order = orders[user] ?? nextOrders[user] ?? 1
        orders[user] = order + 1
        try statements.insertSent(.bits(counter), .text(user), .bits(order), .bytes(content.storedForm))
        numbers.sent.append((counter, order))
      }
      for (user, order) in orders { try statements.setOrder(.text(user), .bits(order)) }
      for counter in batch.finished { try statements.deleteSent(.bits(counter)) }
      for message in batch.received {
        lastReceived += 1
        try statements.insertReceived(
          .bits(lastReceived), .bytes(message.storedForm), .number(message.isLate ? 1 : 0),
          .number(message.transport == .udp ? 1 : 0))
        numbers.received.append(lastReceived)
      }
      newMarks = try mark(batch.received)
      for id in batch.handedOver { try statements.markHandedOver(.bits(id)) }
      for id in batch.acknowledged {
        try statements.deleteReceived(.bits(id))
        gone += database.changes
      }
      if let login = batch.login {
        try statements.setLogin(
          .text(login.owner.user), .text(login.owner.server), .number(Int64(login.deviceNumber)))
      }
      if counter != self.counter || lastReceived != self.lastReceived {
        try statements.setCounters(.bits(counter), .bits(lastReceived))
      }
    }
    (self.counter, self.lastReceived) = (counter, lastReceived)
    nextOrders.merge(orders) { $1 }
    for (sent, number) in zip(batch.sent, numbers.sent) {
      sizes[number.counter] = sent.content.size
      outboxBytes += sent.content.size
    }
    for counter in batch.finished { outboxBytes -= sizes.removeValue(forKey: counter) ?? 0 }
    receivedCount += batch.received.count - gone
    markCount += newMarks
    tidy()
    return numbers
  }

  /// BOUND: the limits of the store.
  private func checkRoom(for batch: StoreBatch) throws(StoreError) {
    if !batch.sent.isEmpty {
      let messages = sizes.count + batch.sent.count - batch.finished.count
      guard messages <= limits.outboxMessages else {
        throw .full("the store takes \(limits.outboxMessages) messages without a final receipt")
      }
      let bytes = outboxBytes + batch.sent.reduce(0) { $0 + $1.content.size }
      guard bytes <= limits.outboxBytes else {
        throw .full("the store takes \(limits.outboxBytes) bytes of messages without a final receipt")
      }
    }
    guard batch.received.isEmpty || receivedCount + batch.received.count <= limits.receivedMessages else {
      throw .full("the store takes \(limits.receivedMessages) messages that are not acknowledged")
    }
  }

  /// Enters messages into the maps of their senders' devices.
  ///
  /// - Returns: how many maps are new.
  private func mark(_ messages: [IncomingMessage]) throws(StoreError) -> Int {
    var maps: [MarkKey: OrderMap] = [:]
    var new = 0
    for message in messages {
      let key = MarkKey(user: message.from, device: message.device)
      var map: OrderMap
      if let known = maps[key] {
        map = known
      } else if let known = try readMark(key) {
        map = known
      } else {
        map = OrderMap(base: message.floor)
        new += 1
      }
      map.advance(to: message.floor)
      if !map.contains(message.order) {
        // The core's map, which this one follows, ends before: only a file that was changed can be further behind.
        if message.order - map.base >= WireLimits.orderWindow {
          map.advance(to: message.order - WireLimits.orderWindow + 1)
        }
        map.insert(message.order)
      }
      maps[key] = map
    }
    let now = StoreOpening.now
    for (key, map) in maps {
      try statements.setMark(
        .text(key.user), .number(Int64(key.device)), .bits(map.base), .bytes(map.storedWords), .number(now))
    }
    return new
  }

  private func readMark(_ key: MarkKey) throws(StoreError) -> OrderMap? {
    defer { statements.getMark.reset() }
    guard try statements.getMark(.text(key.user), .number(Int64(key.device))) else { return nil }
    guard let map = OrderMap(base: statements.getMark.bits(0), storedWords: statements.getMark.bytes(1)) else {
      throw .damaged(path: path, "a map of duplicates")
    }
    return map
  }

  /// Gives room back, now and then. That it fails costs room, nothing else.
  private func tidy() {
    commits += 1
    guard commits % 64 == 0 else { return }
    if markCount > limits.marks + limits.marks / 16 {
      try? StoreOpening.dropMarks(beyond: limits.marks, in: database)
      markCount = limits.marks
    }
    // A quarter of a megabyte that is free is kept for what comes next.
    if let free = try? database.number("PRAGMA freelist_count"), free > 64 {
      try? database.run("PRAGMA incremental_vacuum(\(min(free - 64, 256)))")
    }
  }

  /// Writes down that nothing is open, and closes the file when this object goes.
  public func close() { try? database.run("UPDATE identity SET is_clean = 1") }
}

struct MarkKey: Hashable {
  var user: String
  var device: UInt32
}

extension OrderMap {
  /// Little-endian words.
  var storedWords: [UInt8] {
    words.flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> UInt64(8 * $0)) } }
  }

  init?(base: UInt64, storedWords bytes: [UInt8]) {
    guard bytes.count % 8 == 0 else { return nil }
    let words = stride(from: 0, to: bytes.count, by: 8).map { start in
      (0..<8).reduce(UInt64(0)) { $0 | UInt64(bytes[start + $1]) << UInt64(8 * $1) }
    }
    self.init(base: base, words: words)
  }
}
