import Glibc

/// Whole small files, without Foundation.
public enum FileContents {
  /// Reads a file of at most `maximumBytes`.
  ///
  /// - Throws: a sentence with the path and the reason.
  public static func read(path: String, maximumBytes: Int) throws(UsageError) -> [UInt8] {
    // SAFETY: the path is a C string for the length of the call.
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw UsageError("\(path): \(SystemText.of(errno))") }
    defer { close(descriptor) }
    var contents: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 16_384)
    while true {
      // SAFETY: reads into `chunk` only, which outlives the call.
      let count = unsafe chunk.withUnsafeMutableBytes { unsafe Glibc.read(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw UsageError("\(path): \(SystemText.of(errno))") }
      if count == 0 { return contents }
      contents += chunk[..<count]
      guard contents.count <= maximumBytes else { throw UsageError("\(path): longer than \(maximumBytes) bytes") }
    }
  }

  /// The first line of a small file, without spaces around it; empty when there is none.
  public static func firstLine(path: String) throws(UsageError) -> String {
    let line = try read(path: path, maximumBytes: 4096).prefix { $0 != UInt8(ascii: "\n") }
    let text = line.drop { $0 <= 0x20 }.reversed().drop { $0 <= 0x20 }.reversed()
    return String(decoding: text, as: UTF8.self)
  }
}

/// The system's words for its error numbers.
public enum SystemText {
  /// `No such file or directory` for `ENOENT`.
  public static func of(_ code: Int32) -> String {
    // SAFETY: glibc keeps the text of strerror by thread until that thread's next call; it is copied at once.
    unsafe String(cString: strerror(code))
  }
}
