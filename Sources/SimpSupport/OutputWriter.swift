import Glibc

/// Writes a program's output to a file descriptor and never loses a byte silently: what cannot be written is thrown.
/// Any thread may call; what is given in one call stays together.
public final class OutputWriter: Sendable {
  /// Output could not be written. `isClosed` when the reader went away, which ends most programs quietly.
  public struct Failure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The number from `errno`: `EPIPE`, `ENOSPC`, `EIO`, …
    public let code: Int32

    public var isClosed: Bool { code == EPIPE }

    public var description: String {
      switch code {
      case EPIPE: "nobody reads the output any more"
      case ENOSPC, EDQUOT: "cannot write the output: the disk is full"
      default: "cannot write the output: \(SystemText.of(code))"
      }
    }
  }

  /// The process's standard output.
  public static let standardOutput = OutputWriter(descriptor: 1)

  private let descriptor: Int32
  /// Held for a whole call: bytes of two calls never mix.
  private let lock = Guarded(())

  /// - Parameter descriptor: stays the caller's; it is not closed.
  public init(descriptor: Int32) { self.descriptor = descriptor }

  /// Writes text as it is.
  public func write(_ text: String) throws(Failure) { try write(bytes: Array(text.utf8)) }

  /// Writes text and a newline.
  public func line(_ text: String) throws(Failure) { try write(bytes: Array(text.utf8) + [0x0A]) }

  /// Writes all of `bytes`, waiting where a non-blocking descriptor is full.
  ///
  /// - Throws: the first error; some of the bytes may be out by then.
  public func write(bytes: [UInt8]) throws(Failure) {
    let code = lock.withLock { _ in writeAll(bytes) }
    if code != 0 { throw Failure(code: code) }
  }

  private func writeAll(_ bytes: [UInt8]) -> Int32 {
    var written = 0
    while written < bytes.count {
      // SAFETY: writes out of the rest of `bytes` only, which outlives the call.
      let count = unsafe bytes.withUnsafeBytes { buffer in
        let rest = unsafe UnsafeRawBufferPointer(rebasing: buffer[written...])
        return unsafe Glibc.write(descriptor, rest.baseAddress, rest.count)
      }
      if count >= 0 {
        written += count
        continue
      }
      switch errno {
      case EINTR: continue
      case EAGAIN: waitUntilWritable()
      case let code: return code
      }
    }
    return 0
  }

  private func waitUntilWritable() {
    var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
    // SAFETY: one entry, local.
    unsafe _ = poll(&entry, 1, -1)
  }
}
