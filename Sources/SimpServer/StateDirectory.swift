internal import Glibc
internal import SimpIO
internal import SimpSupport

/// The state directory of one server: made at the first start, held by a lock.
struct StateDirectory {
  let path: String
  let lock: FileLock

  /// The key of a server that was told no other.
  var keyPath: String { path + "/signing.key" }

  /// - Throws: `ServerError` with what is wrong and the remedy: not writable, held by another server.
  init(path: String) throws(ServerError) {
    if unsafe mkdir(path, 0o700) != 0, errno != EEXIST {
      throw ServerError("cannot make the state directory \(path): \(errorText()); name another with --state DIR")
    }
    guard unsafe access(path, W_OK | X_OK) == 0 else {
      throw ServerError(
        "the state directory \(path) is not writable: \(errorText()); give it to this user, or name another with "
          + "--state DIR")
    }
    // Redis works in a directory of its own, so the path must not depend on where this process stands.
    guard let absolute = unsafe realpath(path, nil) else {
      throw ServerError("cannot find the state directory \(path): \(errorText())")
    }
    // SAFETY: realpath allocated the text; it is copied, then freed once.
    let path = unsafe String(cString: absolute)
    unsafe free(absolute)
    self.path = path
    do throws(IOError) {
      lock = try FileLock(path: path + "/lock")
    } catch {
      throw ServerError("\(error)")
    }
  }

  /// Notes the node id of this server here.
  ///
  /// - Returns: the one of the server before, nil if there was none. The lock says that it is gone.
  func exchange(node: String) throws(ServerError) -> String? {
    let path = path + "/node"
    let former = (try? FileContents.firstLine(path: path)) ?? ""
    try Self.write(node, to: path)
    return former.isEmpty ? nil : former
  }

  /// Writes a line; a reader finds the old file or the new one, whole.
  static func write(_ line: String, to path: String) throws(ServerError) {
    let text = Array("\(line)\n".utf8)
    let temporary = "\(path).new"
    let descriptor = unsafe open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw ServerError("cannot write \(path): \(errorText())") }
    // SAFETY: writes out of `text`, which outlives the call.
    let written = unsafe Glibc.write(descriptor, text, text.count)
    close(descriptor)
    guard written == text.count, unsafe rename(temporary, path) == 0 else {
      throw ServerError("cannot write \(path): \(errorText())")
    }
  }
}

/// Why a server does not start, as a sentence with the remedy.
public struct ServerError: Error, Sendable, CustomStringConvertible {
  public let description: String
  init(_ description: String) { self.description = description }
}

/// The text of the present errno.
private func errorText() -> String { SystemText.of(errno) }
