internal import CSQLite
internal import Glibc

/// One SQLite data base, to be used by one thread at a time.
@safe
final class Database {
  let path: String
  private let handle: OpaquePointer

  /// - Parameter path: of a file that is there.
  init(path: String) throws(StoreError) {
    self.path = path
    var handle: OpaquePointer?
    // SAFETY: SQLite gives a handle also when it fails, to be closed like any other; the path is copied.
    let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
    let status = unsafe sqlite3_open_v2(path, &handle, flags, nil)
    guard status == SQLITE_OK, let opened = unsafe handle else {
      let error = unsafe Self.error(status, handle, path: path)
      unsafe sqlite3_close_v2(handle)
      throw error
    }
    unsafe self.handle = opened
    // SQLite opens for reading what it may not write; then every change would fail, and why is known now.
    if unsafe sqlite3_db_readonly(opened, "main") != 0 { throw Self.unwritable(path) }
  }

  deinit {
    // SAFETY: statements were finalized before: they hold this object.
    unsafe sqlite3_close_v2(handle)
  }

  /// Runs statements without results.
  func run(_ sql: String) throws(StoreError) {
    // SAFETY: the text is read during the call.
    let status = unsafe sqlite3_exec(handle, sql, nil, nil, nil)
    guard status == SQLITE_OK else { throw failure(status) }
  }

  func prepare(_ sql: String) throws(StoreError) -> Statement {
    var statement: OpaquePointer?
    // SAFETY: the text is read during the call; the statement is finalized by its object, which holds this one.
    let status = unsafe sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil)
    guard status == SQLITE_OK, let prepared = unsafe statement else { throw failure(status) }
    return unsafe Statement(prepared, of: self)
  }

  /// The only value of a query of one row and column.
  func number(_ sql: String) throws(StoreError) -> Int64 {
    let statement = try prepare(sql)
    return try statement.step() ? statement.number(0) : 0
  }

  func text(_ sql: String) throws(StoreError) -> String {
    let statement = try prepare(sql)
    return try statement.step() ? statement.text(0) : ""
  }

  /// All of `body` or, when it throws, nothing of it.
  func transaction<Value>(_ body: () throws(StoreError) -> Value) throws(StoreError) -> Value {
    try run("BEGIN IMMEDIATE")
    do throws(StoreError) {
      let value = try body()
      try run("COMMIT")
      return value
    } catch {
      // SQLite may have rolled back by itself.
      if unsafe sqlite3_get_autocommit(handle) == 0 { try? run("ROLLBACK") }
      throw error
    }
  }

  /// Rows that the last statement changed.
  var changes: Int { unsafe Int(sqlite3_changes(handle)) }

  func failure(_ status: Int32) -> StoreError { unsafe Self.error(status, handle, path: path) }

  private static func error(_ status: Int32, _ handle: OpaquePointer?, path: String) -> StoreError {
    let last = errno
    // SAFETY: the message is copied; a nil handle has none.
    let message = unsafe handle.map { unsafe String(cString: sqlite3_errmsg($0)) } ?? "out of memory"
    // Of a failed write SQLite keeps it, or leaves it where the system put it.
    var number = unsafe handle.map { unsafe sqlite3_system_errno($0) } ?? 0
    if number == 0, status & 0xFF == SQLITE_IOERR { number = last }
    switch status & 0xFF {
    case SQLITE_BUSY, SQLITE_LOCKED: return .inUse(path: path)
    case SQLITE_FULL: return .diskFull(path: path)
    case SQLITE_IOERR where [ENOSPC, EDQUOT, EFBIG].contains(number): return .diskFull(path: path)
    case SQLITE_READONLY, SQLITE_PERM: return unwritable(path)
    case SQLITE_NOTADB: return .notAStore(path: path, "it holds something else")
    case SQLITE_CORRUPT: return .damaged(path: path, message)
    case SQLITE_CANTOPEN: return noAccess(path, number)
    default:
      return .failed(path: path, number == 0 ? message : "\(message) (\(text(ofError: number)))")
    }
  }

  /// A file that was opened for reading alone.
  private static func unwritable(_ path: String) -> StoreError {
    guard unsafe access(path, W_OK) != 0, errno == EACCES else { return .readOnly(path: path) }
    return .noAccess(path: path, text(ofError: EACCES))
  }

  static func noAccess(_ path: String, _ number: Int32) -> StoreError {
    switch number {
    case EROFS: .readOnly(path: path)
    case EISDIR: .notAStore(path: path, "it is a directory")
    case ENOSPC, EDQUOT: .diskFull(path: path)
    case 0: .noAccess(path: path, "it is not a plain file that may be opened")
    default: .noAccess(path: path, text(ofError: number))
    }
  }

  static func text(ofError number: Int32) -> String {
    // SAFETY: the text is copied at once.
    unsafe String(cString: strerror(number))
  }
}

/// A statement that is used again and again.
@safe
final class Statement {
  private let handle: OpaquePointer
  private let database: Database

  init(_ handle: OpaquePointer, of database: Database) {
    unsafe self.handle = handle
    self.database = database
  }

  deinit { unsafe sqlite3_finalize(handle) }

  // SAFETY (below): indices are those of the statement's text; SQLite copies what is bound, and what is read is copied
  // before the next step.

  /// Runs it with these values, up to its first row or its end.
  ///
  /// - Returns: whether there is a row.
  @discardableResult
  func callAsFunction(_ values: Value...) throws(StoreError) -> Bool {
    unsafe sqlite3_reset(handle)
    for (index, value) in values.enumerated() {
      let status = bind(value, at: Int32(index + 1))
      guard status == SQLITE_OK else { throw database.failure(status) }
    }
    let hasRow = try step()
    // What ended keeps nothing locked.
    if !hasRow { unsafe sqlite3_reset(handle) }
    return hasRow
  }

  /// - Returns: whether there is a row.
  func step() throws(StoreError) -> Bool {
    let status = unsafe sqlite3_step(handle)
    if status == SQLITE_ROW { return true }
    guard status == SQLITE_DONE else {
      let error = database.failure(status)
      unsafe sqlite3_reset(handle)
      throw error
    }
    return false
  }

  /// Done with its rows.
  func reset() { unsafe sqlite3_reset(handle) }

  private func bind(_ value: Value, at index: Int32) -> Int32 {
    switch value {
    case .number(let number): return unsafe sqlite3_bind_int64(handle, index, number)
    case .text(var text):
      return text.withUTF8 { utf8 in
        unsafe utf8.withMemoryRebound(to: CChar.self) { text in
          unsafe simp_bind_text(handle, index, text.baseAddress, Int32(text.count))
        }
      }
    case .bytes(let bytes):
      return unsafe bytes.withUnsafeBytes { bytes in
        unsafe simp_bind_blob(handle, index, bytes.baseAddress, Int32(bytes.count))
      }
    }
  }

  func number(_ column: Int32) -> Int64 { unsafe sqlite3_column_int64(handle, column) }

  /// 64 bits as they are, for SQLite's numbers are signed.
  func bits(_ column: Int32) -> UInt64 { UInt64(bitPattern: number(column)) }

  func text(_ column: Int32) -> String { String(decoding: bytes(column), as: UTF8.self) }

  func bytes(_ column: Int32) -> [UInt8] {
    guard let start = unsafe sqlite3_column_blob(handle, column) else { return [] }
    let count = unsafe Int(sqlite3_column_bytes(handle, column))
    return unsafe [UInt8](UnsafeRawBufferPointer(start: start, count: count))
  }
}

enum Value {
  case number(Int64)
  case text(String)
  case bytes([UInt8])

  static func bits(_ number: UInt64) -> Value { .number(Int64(bitPattern: number)) }
}
