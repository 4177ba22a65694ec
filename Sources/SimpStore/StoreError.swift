/// Why a store cannot be opened, or does not take something. What is stored stays as it was.
public enum StoreError: Error, Hashable, Sendable {
  /// Another process, or another connection of this one, has it open.
  case inUse(path: String)
  /// The file is something else: a directory, another program's data base, not a data base.
  case notAStore(path: String, String)
  /// Written by a later version of this library.
  case newerVersion(path: String, Int)
  /// The file, or its directory, may not be used: permission, no such directory.
  case noAccess(path: String, String)
  /// The file, or the file system it lies on, takes no changes.
  case readOnly(path: String)
  /// No room on the disk, or in the limits of the process.
  case diskFull(path: String)
  /// The file was damaged.
  case damaged(path: String, String)
  /// It is made for another user, or another server.
  case ofAnother(path: String, String)
  /// As many messages, or bytes, as its limits allow.
  case full(String)
  /// The system, or SQLite, failed otherwise.
  case failed(path: String, String)
}

extension StoreError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .inUse(let path): "\(path) is in use: one connection at a time has a store"
    case .notAStore(let path, let what): "\(path) is not a store: \(what)"
    case .newerVersion(let path, let version):
      "\(path) was written by a later version (its format is \(version)): use that version, or another file"
    case .noAccess(let path, let why): "\(path) cannot be opened: \(why)"
    case .readOnly(let path): "\(path) cannot be written: the file or its file system is read-only"
    case .diskFull(let path): "\(path) cannot grow: the disk is full; nothing stored is lost, make room and try again"
    case .damaged(let path, let what): "\(path) is damaged: \(what)"
    case .ofAnother(let path, let whose): "\(path) belongs to \(whose): use another file"
    case .full(let what): what
    case .failed(let path, let what): "\(path): \(what)"
    }
  }
}
