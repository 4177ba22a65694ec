internal import SimpSupport

/// What a run has done so far, on a terminal.
enum Progress {
  /// Writes a line a second until the task is cancelled, which leaves nothing of it; nil when nobody would see it.
  static func show(_ verdict: @escaping @Sendable () async -> Verdict) -> Task<Void, Never>? {
    guard Terminal.standardErrorIsTerminal else { return nil }
    return Task {
      var last: UInt64 = 0
      while (try? await Task.sleep(for: .seconds(1))) != nil {
        let verdict = await verdict()
        Log.standardError(
          "\r\u{1B}[K\(verdict.sent) sent, \(verdict.delivered) delivered, \(verdict.delivered - last)/s, "
            + "\(verdict.lost) under way")
        last = verdict.delivered
      }
      Log.standardError("\r\u{1B}[K")
    }
  }
}
