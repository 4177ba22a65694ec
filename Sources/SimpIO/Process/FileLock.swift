internal import CSimpLinux
internal import Glibc

/// A lock that one process at a time can hold, in a file. The kernel gives it back when the holder ends, however it
/// ends; the file itself stays.
public final class FileLock {
  public let path: String
  private let fd: Int32

  /// Takes the lock, making the file if need be (mode 0600), and writes our process id into it.
  ///
  /// - Throws: `IOError`; EWOULDBLOCK, with the holder's process id in the text, when another process has the lock.
  public init(path: String) throws(IOError) {
    var holder: Int64 = 0
    // SAFETY: the path is a C string for the call, and `holder` outlives it.
    let fd = unsafe simp_lock_file(path, &holder)
    guard fd >= 0 else {
      let isHeld = fd == -EWOULDBLOCK
      let name = holder > 0 ? "process \(holder)" : "another process"
      throw IOError(code: -fd, operation: "lock", subject: path, detail: isHeld ? "\(name) holds it" : nil)
    }
    self.path = path
    self.fd = fd
  }

  deinit { simp_unlock_file(fd) }
}
