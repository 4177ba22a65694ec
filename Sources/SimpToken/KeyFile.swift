import Glibc

/// A key file as it was read, and the care that a secret on disk needs.
struct KeyFile {
  let contents: [UInt8]
  private let path: String
  private let mode: mode_t

  // BOUND: a set of 256 keys with their certificates; more than this is some other file.
  private static let maximumBytes = 1 << 20

  static func read(path: String) throws(TokenError) -> KeyFile {
    // O_NONBLOCK: a FIFO of that name must not hang the start.
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else {
      let reason = errno
      if reason == ENOENT { throw TokenError(.badKey, "\(path): no such signing key") }
      throw TokenError(.badKey, "\(path): cannot read the signing key: \(text(of: reason))")
    }
    defer { close(descriptor) }

    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
      throw TokenError(.badKey, "\(path): not a regular file, so no signing key")
    }
    guard status.st_size <= maximumBytes else { throw TokenError(.badKey, "\(path): too long to be a signing key") }
    // One more than there is, to see that it does not grow meanwhile.
    var contents = [UInt8](repeating: 0, count: Int(status.st_size) + 1)
    var filled = 0
    while filled < contents.count {
      // SAFETY: reads into the rest of `contents` only, which outlives the call.
      let count = unsafe contents.withUnsafeMutableBytes { buffer in
        unsafe Glibc.read(descriptor, buffer.baseAddress.unsafelyUnwrapped + filled, buffer.count - filled)
      }
      if count == 0 { break }
      if count < 0 {
        if errno == EINTR { continue }
        throw TokenError(.badKey, "\(path): cannot read the signing key: \(text(of: errno))")
      }
      filled += count
    }
    defer { contents.wipe() }
    guard filled == contents.count - 1 else { throw TokenError(.badKey, "\(path) changed while it was read") }
    return KeyFile(contents: Array(contents[..<filled]), path: path, mode: status.st_mode)
  }

  /// - Throws: `badKey` when other users can read or write the file.
  func checkSecret() throws(TokenError) {
    guard mode & 0o077 == 0 else {
      let mode = String(mode & 0o777, radix: 8)
      throw TokenError(.badKey, "\(path): mode \(mode) lets other users at the signing key; run: chmod 600 '\(path)'")
    }
  }

  /// - Throws: `badKey` when other users can write the file: they could let themselves in with a key of their own.
  func checkPublic() throws(TokenError) {
    guard mode & 0o022 == 0 else {
      let mode = String(mode & 0o777, radix: 8)
      throw TokenError(.badKey, "\(path): mode \(mode) lets other users put keys in; run: chmod 644 '\(path)'")
    }
  }

  /// Writes a file of mode 0600. The name appears, or changes its contents, only when they are on the disk.
  ///
  /// - Parameter isNew: a file that is there stays, with `keyExists`; else it is replaced in one step.
  static func write(path: String, contents: [UInt8], isNew: Bool) throws(TokenError) {
    let temporary = "\(path).\(getpid())-\(UInt32.random(in: .min ... .max)).new"
    let descriptor = unsafe open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw cannotWrite(path, errno) }
    defer { unsafe unlink(temporary) }
    do {
      defer { close(descriptor) }
      var line = contents + [UInt8(ascii: "\n")]
      defer { line.wipe() }
      // SAFETY: writes out of `line`, which outlives the call. A regular file takes all of them, or the disk is full.
      let written = unsafe line.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
      guard written == line.count else { throw cannotWrite(path, written < 0 ? errno : ENOSPC) }
      // A umask can only take bits away; this makes the mode the same everywhere.
      guard fchmod(descriptor, 0o600) == 0, fsync(descriptor) == 0 else { throw cannotWrite(path, errno) }
    }
    // `link` never replaces a file, `rename` always does.
    guard unsafe (isNew ? link(temporary, path) : rename(temporary, path)) == 0 else {
      let reason = errno
      if reason == EEXIST {
        throw TokenError(.keyExists, "\(path): exists already; a signing key is never overwritten")
      }
      throw cannotWrite(path, reason)
    }
    try syncDirectory(of: path)
  }

  private static func syncDirectory(of path: String) throws(TokenError) {
    let slash = path.lastIndex(of: "/")
    let directory = slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
    let descriptor = unsafe open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw cannotWrite(path, errno) }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else { throw cannotWrite(path, errno) }
  }

  private static func cannotWrite(_ path: String, _ reason: Int32) -> TokenError {
    TokenError(.badKey, "\(path): cannot write the signing key: \(text(of: reason))")
  }

  private static func text(of code: Int32) -> String {
    // SAFETY: strerror gives a C string that stays valid until this thread's next call of it; it is copied at once.
    unsafe String(cString: strerror(code))
  }
}
