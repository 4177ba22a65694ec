internal import Glibc
internal import SimpSupport

/// Histories as files: a line an event, written as it happens, so that a file is whole up to the instant its writer was
/// killed.
final class HistoryFile: Sendable {
  /// Why a file cannot be had.
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  private let descriptor: Int32
  private let writer: OutputWriter

  /// Appends to the file, which is made if need be (mode 0600).
  ///
  /// - Parameter isNew: what the file held goes.
  init(path: String, isNew: Bool) throws(Failure) {
    let mode = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (isNew ? O_TRUNC : 0)
    descriptor = unsafe open(path, mode, 0o600)
    guard descriptor >= 0 else { throw Failure(description: "\(path): cannot be written: \(SystemText.of(errno))") }
    writer = OutputWriter(descriptor: descriptor)
  }

  deinit { close(descriptor) }

  func write(_ line: some StringProtocol) throws(OutputWriter.Failure) { try writer.line(String(line)) }
}

/// Reads lines of a file that may still grow.
struct LineTail {
  private let descriptor: Int32
  private var rest: [UInt8] = []

  init(path: String) throws(HistoryFile.Failure) {
    descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else {
      throw HistoryFile.Failure(description: "\(path): cannot be read: \(SystemText.of(errno))")
    }
  }

  /// Hands out the whole lines that were not read yet, without their ends.
  ///
  /// - Parameter includesRest: also what stands behind the last end of a line.
  mutating func read(includesRest: Bool = false, _ body: (Substring) -> Void) throws(HistoryFile.Failure) {
    var chunk = [UInt8](repeating: 0, count: 1 << 18)
    while true {
      // SAFETY: reads into `chunk` only, which outlives the call.
      let count = unsafe chunk.withUnsafeMutableBytes { unsafe Glibc.read(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw HistoryFile.Failure(description: "cannot be read: \(SystemText.of(errno))") }
      if count == 0 { break }
      rest += chunk[..<count]
      guard let end = rest.lastIndex(of: 0x0A) else { continue }
      hand(rest[...end], body)
      rest.removeSubrange(...end)
    }
    if includesRest, !rest.isEmpty {
      hand(rest[...], body)
      rest = []
    }
  }

  private func hand(_ bytes: ArraySlice<UInt8>, _ body: (Substring) -> Void) {
    let text = String(decoding: bytes, as: UTF8.self)
    for line in text.utf8.split(separator: 0x0A) { body(Substring(line)) }
  }

  func close() { _ = Glibc.close(descriptor) }
}

extension HistoryCheck {
  /// The verdict over a written history.
  static func verdict(path: String) throws(HistoryFile.Failure) -> HistoryVerdict {
    var check = HistoryCheck()
    var tail = try LineTail(path: path)
    defer { tail.close() }
    try tail.read(includesRest: true) { line in
      if let event = HistoryEvent(line: line) { check.note(event) } else { check.noteUnreadable() }
    }
    return check.verdict
  }
}
