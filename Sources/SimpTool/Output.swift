internal import SimpIO
internal import SimpSupport

/// Standard output for a command: remembers that writing failed, and says so once, instead of failing at each line.
final class Output: Sendable {
  private let writer: OutputWriter
  private let failure = Locked<OutputWriter.Failure?>(nil)

  init(_ writer: OutputWriter = .standardOutput) { self.writer = writer }

  /// Writes text and a newline, at once.
  ///
  /// - Returns: false when it could not be written, now or at an earlier call.
  @discardableResult
  func line(_ text: String) -> Bool {
    guard failure.withLock({ $0 }) == nil else { return false }
    do throws(OutputWriter.Failure) {
      try writer.line(text)
      return true
    } catch {
      failure.withLock { $0 = error }
      // A reader that went away wanted no more, and wants no explanation.
      if !error.isClosed { Terminal.say("simp: \(error)") }
      return false
    }
  }

  /// The status to end with: a good one only if everything was written.
  func status(_ code: Int32) -> Int32 {
    code == ExitCode.ok && failure.withLock({ $0 }) != nil ? ExitCode.failed : code
  }
}
