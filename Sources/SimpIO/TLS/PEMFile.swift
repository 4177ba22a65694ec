internal import Glibc

/// Certificates and keys on disk.
enum PEMFile {
  /// BOUND: a chain of certificates, or a bundle of authorities, has less.
  private static let maximumBytes = 4 << 20

  /// - Parameter isSecret: then nobody outside owner and group may have any right to the file.
  static func read(_ path: String, isSecret: Bool = false) throws(TLSConfigurationError) -> [UInt8] {
    // O_NONBLOCK: a FIFO of that name must not hang the program.
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { throw TLSConfigurationError("cannot read \(path): \(reason())") }
    defer { close(descriptor) }
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
      throw TLSConfigurationError("\(path) is not a regular file")
    }
    guard !isSecret || status.st_mode & 0o007 == 0 else {
      throw TLSConfigurationError("\(path): everybody on this machine may use this key; run: chmod o= '\(path)'")
    }
    guard status.st_size <= maximumBytes else {
      throw TLSConfigurationError("\(path) is too large for certificates or a key")
    }
    var contents = [UInt8](repeating: 0, count: Int(status.st_size))
    var filled = 0
    while filled < contents.count {
      // SAFETY: reads into the rest of `contents` only, which outlives the call.
      let count = unsafe contents.withUnsafeMutableBytes { buffer in
        unsafe Glibc.read(descriptor, buffer.baseAddress! + filled, buffer.count - filled)
      }
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw TLSConfigurationError("cannot read \(path): \(reason())") }
      if count == 0 { break }
      filled += count
    }
    contents.removeLast(contents.count - filled)
    return contents
  }

  /// Makes a file that is not there yet. Its name appears when the contents are on the disk, so that a crash leaves
  /// all or nothing.
  static func create(_ path: String, _ contents: [UInt8], mode: mode_t) throws(TLSConfigurationError) {
    let temporary = "\(path).\(getpid())-\(RandomBytes.uint64()).new"
    let descriptor = unsafe open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)
    guard descriptor >= 0 else { throw TLSConfigurationError("cannot write \(path): \(reason())") }
    defer { unsafe unlink(temporary) }
    // SAFETY: writes out of `contents`, which outlives the call. So few bytes are written whole or not at all.
    let written = unsafe contents.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
    // A umask can only take bits away; fchmod makes the mode the same everywhere.
    let isDone = written == contents.count && fchmod(descriptor, mode) == 0 && fsync(descriptor) == 0
    let failure = isDone ? "" : written >= 0 && written < contents.count ? "the disk is full" : reason()
    close(descriptor)
    guard isDone else { throw TLSConfigurationError("cannot write \(path): \(failure)") }
    // `link` never replaces a file.
    guard unsafe link(temporary, path) == 0 else { throw TLSConfigurationError("cannot write \(path): \(reason())") }
    let directory = unsafe open(String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)]), O_RDONLY | O_CLOEXEC)
    guard directory >= 0 else { return }
    fsync(directory)
    close(directory)
  }

  static func exists(_ path: String) -> Bool { unsafe access(path, F_OK) == 0 }

  private static func reason() -> String {
    // SAFETY: glibc keeps the text by thread until that thread's next call; it is copied at once.
    unsafe String(cString: strerror(errno))
  }
}
