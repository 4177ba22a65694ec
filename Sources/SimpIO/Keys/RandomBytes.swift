internal import CSimpLinux

/// Bytes that nobody can guess, from OpenSSL's generator. From any thread. Traps if the generator fails: a program
/// that goes on with guessable keys is worse than one that ends.
public enum RandomBytes {
  /// Fills `span` with random bytes.
  public static func fill(_ span: inout MutableSpan<UInt8>) {
    // SAFETY: the buffer is used only inside the closure.
    let done = unsafe span.withUnsafeMutableBufferPointer { buffer in
      unsafe buffer.isEmpty || simp_random(buffer.baseAddress!, buffer.count) == 1
    }
    precondition(done, "OpenSSL has no random bytes to give")
  }

  /// `count` random bytes.
  public static func bytes(_ count: Int) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    var span = bytes.mutableSpan
    fill(&span)
    return bytes
  }

  /// A random number of 64 bits.
  public static func uint64() -> UInt64 {
    bytes(8).reduce(0) { $0 << 8 | UInt64($1) }
  }
}
