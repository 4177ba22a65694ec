internal import Glibc
internal import SimpCore

/// Opens the file of a store: makes it, locks it, brings its format up to date, takes in what the application got before
/// the last process ended, and reads it.
struct StoreOpening {
  /// "SIMP".
  private static let applicationId: Int64 = 0x5349_4D50
  /// Of the tables. A later one comes with a step in `migrate`.
  static let version: Int64 = 1
  /// Maps of senders that were not heard of for so long go.
  private static let markSeconds: Int64 = 30 * 86_400

  let database: Database
  let handover: HandoverLog
  private(set) var contents: StoreContents
  private(set) var lastReceived: UInt64 = 0

  init(path: String, limits: StoreLimits) throws(StoreError) {
    try Self.prepareFile(path)
    database = try Database(path: path)
    try Self.lock(database)
    try Self.migrate(database)
    handover = try HandoverLog(path: path + "-handover")
    contents = StoreContents(outbox: OutboxContents(id: 0), owner: StoreOwner())
    try settle()
    try Self.dropMarks(beyond: limits.marks, in: database)
    try read()
  }

  /// Seconds since 1970.
  static var now: Int64 { Int64(time(nil)) }

  /// Makes the file, if need be, for its user alone.
  private static func prepareFile(_ path: String) throws(StoreError) {
    guard !path.isEmpty, !path.utf8.contains(0) else { throw .noAccess(path: path, "it has no name") }
    let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    if descriptor >= 0 {
      // Nobody can have locked what was not there.
      close(descriptor)
      return
    }
    guard errno == EEXIST else { throw Database.noAccess(path, errno) }
    // Opening a file that is there and closing it again would drop the locks that this process has on it.
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { throw Database.noAccess(path, errno) }
    guard status.st_mode & S_IFMT == S_IFREG else {
      throw .notAStore(path: path, status.st_mode & S_IFMT == S_IFDIR ? "it is a directory" : "it is not a plain file")
    }
    // SQLite takes what is too short for a data base for an empty one, and would write over it.
    guard status.st_size == 0 || status.st_size >= 512 else {
      throw .notAStore(path: path, "it holds something else")
    }
  }

  /// The lock is exclusive and kept until the file is closed: whoever comes second learns it here, not when it writes.
  private static func lock(_ database: Database) throws(StoreError) {
    try database.run("PRAGMA locking_mode = EXCLUSIVE")
    let (application, version) = (
      try database.number("PRAGMA application_id"), try database.number("PRAGMA user_version")
    )
    if application == 0, try database.number("SELECT count(*) FROM sqlite_schema") == 0 {
      // New, or left by one that was killed here: each of these is a commit of its own, and the tables come last.
      try database.run("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA application_id = \(applicationId)")
    } else {
      guard application == applicationId else { throw .notAStore(path: database.path, "another program made it") }
      guard version <= Self.version else { throw .newerVersion(path: database.path, Int(version)) }
      // It may have been copied, or made readable; nobody else is to read it from now on.
      _ = unsafe chmod(database.path, 0o600)
    }
    guard try database.text("PRAGMA journal_mode = WAL") == "wal" else {
      throw .failed(path: database.path, "SQLite keeps no write-ahead log there")
    }
    try database.run("PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 4194304; PRAGMA foreign_keys = OFF")
    try database.run("BEGIN EXCLUSIVE; COMMIT")
  }

  /// From version to version, each step whole or not at all. Version 0 is an empty file.
  private static func migrate(_ database: Database) throws(StoreError) {
    while case let version = try database.number("PRAGMA user_version"), version < Self.version {
      try database.transaction { () throws(StoreError) in
        switch version {
        case 0: try database.run(tables)
        default: throw .failed(path: database.path, "no way from format \(version)")
        }
        try database.run("PRAGMA user_version = \(version + 1)")
      }
    }
  }

  private static let tables = """
    CREATE TABLE identity (
      one INTEGER PRIMARY KEY CHECK (one = 1),
      outbox INTEGER NOT NULL, device INTEGER NOT NULL, user TEXT NOT NULL, server TEXT NOT NULL,
      counter INTEGER NOT NULL,   -- of the last message that entered the outbox
      received INTEGER NOT NULL,  -- the id of the last message that came
      tag INTEGER NOT NULL,       -- of the handover log that belongs to this opening
      boot TEXT NOT NULL, is_clean INTEGER NOT NULL);
    CREATE TABLE recipient (user TEXT PRIMARY KEY, next INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE outbox (
      counter INTEGER PRIMARY KEY, user TEXT NOT NULL, number INTEGER NOT NULL, content BLOB NOT NULL);
    CREATE TABLE inbox (
      id INTEGER PRIMARY KEY, message BLOB NOT NULL, is_late INTEGER NOT NULL, by_udp INTEGER NOT NULL,
      is_redelivered INTEGER NOT NULL);
    CREATE TABLE mark (
      user TEXT NOT NULL, device INTEGER NOT NULL, conversation TEXT NOT NULL, base INTEGER NOT NULL,
      words BLOB NOT NULL, used INTEGER NOT NULL, PRIMARY KEY (user, device, conversation)) WITHOUT ROWID;
    """

  /// Takes what the application had got, when the last process ended, out of its log, and begins a new one.
  private func settle() throws(StoreError) {
    let tag = UInt64.random(in: 1 ... .max)
    let boot = Self.boot
    try database.transaction { () throws(StoreError) in
      let identity = try database.prepare("SELECT tag, boot, is_clean FROM identity")
      if try identity() {
        let replay = try handover.replay(tag: identity.bits(0))
        // The log is not forced to the disk: after a crash of the machine anything may have been handed over.
        let isLogLost = identity.number(2) == 0 && identity.text(1) != boot
        identity.reset()
        let (delete, mark) = (
          try database.prepare("DELETE FROM inbox WHERE id = ?"),
          try database.prepare("UPDATE inbox SET is_redelivered = 1 WHERE id = ?")
        )
        for id in replay.acknowledged { try delete(.bits(id)) }
        for id in replay.handedOver { try mark(.bits(id)) }
        if isLogLost { try database.run("UPDATE inbox SET is_redelivered = 1") }
        try database.prepare("UPDATE identity SET tag = ?, boot = ?, is_clean = 0")(.bits(tag), .text(boot))
      } else {
        try database.prepare("INSERT INTO identity VALUES (1, ?, 0, '', '', 0, 0, ?, ?, 0)")(
          .bits(UInt64.random(in: 1 ... .max)), .bits(tag), .text(boot))
      }
    }
    try handover.begin(tag: tag)
  }

  /// Names this run of the machine.
  private static var boot: String {
    let descriptor = unsafe open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return "" }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 36)
    // SAFETY: reads into `bytes` only, which outlives the call.
    let count = unsafe bytes.withUnsafeMutableBytes { unsafe Glibc.read(descriptor, $0.baseAddress, $0.count) }
    return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
  }

  /// Forgets maps that are idle for long, and the longest unused ones beyond a limit.
  static func dropMarks(beyond limit: Int, in database: Database) throws(StoreError) {
    try database.prepare("DELETE FROM mark WHERE used < ?")(.number(now - markSeconds))
    let excess = "SELECT used FROM mark ORDER BY used DESC LIMIT 1 OFFSET ?"
    try database.prepare("DELETE FROM mark WHERE used <= (\(excess))")(.number(Int64(limit)))
  }

  // MARK: - Reading

  private mutating func read() throws(StoreError) {
    let identity = try database.prepare("SELECT outbox, device, user, server, counter, received FROM identity")
    guard try identity() else { throw damage("no identity") }
    contents.outbox.id = identity.bits(0)
    contents.outbox.deviceNumber = UInt32(truncatingIfNeeded: identity.number(1))
    contents.owner = StoreOwner(user: identity.text(2), server: identity.text(3))
    contents.outbox.counter = identity.bits(4)
    lastReceived = identity.bits(5)
    guard contents.outbox.id != 0, contents.outbox.deviceNumber < 1 << 24 else { throw damage("its identity") }
    try readOutbox()
    try readReceived()
    try readMarks()
  }

  private mutating func readOutbox() throws(StoreError) {
    let recipients = try database.prepare("SELECT user, next FROM recipient")
    var next: [String: UInt64] = [:]
    while try recipients.step() {
      let (user, order) = (recipients.text(0), recipients.bits(1))
      guard Text.isUserName(user), order < 1 << 40 else { throw damage("a recipient") }
      next[user] = order
      contents.outbox.nextOrders.append((user, order))
    }
    let messages = try database.prepare("SELECT counter, user, number, content FROM outbox ORDER BY counter")
    while try messages.step() {
      let (counter, user, order) = (messages.bits(0), messages.text(1), messages.bits(2))
      let bytes = messages.bytes(3)
      guard counter <= contents.outbox.counter, order < next[user] ?? 0, order > 0,
        let content = try? MessageContent(storedForm: bytes.span)
      else { throw damage("a message of the outbox") }
      contents.outbox.messages.append(.init(counter: counter, user: user, order: order, content: content))
    }
  }

  private mutating func readReceived() throws(StoreError) {
    // What was handed over before comes first by itself: it came first.
    let rows = try database.prepare("SELECT id, message, is_late, by_udp, is_redelivered FROM inbox ORDER BY id")
    while try rows.step() {
      let bytes = rows.bytes(1)
      let transport: Transport = rows.number(3) == 1 ? .udp : .tcp
      guard var message = try? IncomingMessage(reading: bytes.span, transport: transport) else {
        throw damage("a message that came")
      }
      message.isLate = rows.number(2) == 1
      var received = ReceivedMessage(id: rows.bits(0), message: message)
      received.isRedelivered = rows.number(4) == 1
      contents.received.append(received)
    }
  }

  private mutating func readMarks() throws(StoreError) {
    let rows = try database.prepare("SELECT user, device, base, words FROM mark WHERE conversation = '' ORDER BY used")
    while try rows.step() {
      let device = UInt32(truncatingIfNeeded: rows.number(1))
      guard let map = OrderMap(base: rows.bits(2), storedWords: rows.bytes(3)) else {
        throw damage("a map of duplicates")
      }
      contents.marks.append(.init(user: rows.text(0), device: device, map: map))
    }
  }

  private func damage(_ what: String) -> StoreError { .damaged(path: database.path, what) }
}
