internal import SimpSupport

/// What a run of `verify` found.
struct VerifyReport: Sendable {
  var plan = VerifyPlan()
  var server = ""
  var verdict = HistoryVerdict()
  var loadSeconds = 0.0
  var isInterrupted = false
  /// Resident, of this process at the end, bytes: the history's records are most of it.
  var memory = 0
  /// What went wrong with the run itself.
  var failures: [String] = []

  /// Asked for, and never made.
  var missingFaults: [String] {
    isInterrupted ? [] : plan.faults.keys.map(\.rawValue).filter { verdict.faults[$0] == nil }.sorted()
  }

  var exitCode: Int32 {
    if !verdict.isGood { return ExitCode.notDelivered }
    return failures.isEmpty && missingFaults.isEmpty && verdict.sent > 0 ? ExitCode.ok : ExitCode.failed
  }

  /// Prints it on standard output.
  ///
  /// - Returns: the exit status.
  func print(asJSON: Bool) throws(OutputWriter.Failure) -> Int32 {
    for failure in failures { Terminal.say("simp-bench: \(printable(failure))") }
    for fault in missingFaults { Terminal.say("simp-bench: \(fault) was asked for and never happened: run longer") }
    try OutputWriter.standardOutput.line(asJSON ? json.description : text)
    return exitCode
  }

  private var rate: Double { loadSeconds > 0 ? Double(verdict.sent) / loadSeconds : 0 }

  var json: JSONValue {
    .object(
      verdict.members + [
        .init("ok", .bool(exitCode == ExitCode.ok)), .init("interrupted", .bool(isInterrupted)),
        .init("load_s", .number(loadSeconds, digits: 3)), .init("rate_per_s", .number(rate, digits: 1)),
        .init("memory_mib", .number(Double(memory) / 1_048_576, digits: 1)), .init("server", .string(server)),
        .init("users", .integer(Int64(plan.users))), .init("clients", .integer(Int64(plan.clients))),
        .init("stores", .integer(Int64(plan.stores))), .init("seed", .unsigned(plan.seed)),
        .init("failures", .array((failures + missingFaults.map { "\($0) never happened" }).map { .string($0) })),
      ])
  }

  var text: String {
    let head =
      "verify      \(plan.users) users, \(plan.clients) client processes, seed \(plan.seed), \(fixed(loadSeconds, digits: 1)) s"
      + " of load at \(fixed(rate, digits: 0))/s, server \(server)" + (isInterrupted ? ", INTERRUPTED" : "")
    let memory = "memory      \(fixed(Double(memory) / 1_048_576, digits: 0)) MiB in this process at the end"
    return "\(head)\n\(memory)\n\(verdict.report)"
  }
}

/// What a run has done so far, on a terminal.
enum VerifyProgress {
  /// Writes a line a second until the task is cancelled, which leaves nothing of it; nil when nobody would see it.
  static func show(_ recorder: HistoryRecorder) -> Task<Void, Never>? {
    guard Terminal.standardErrorIsTerminal else { return nil }
    return Task.detached {
      while (try? await Task.sleep(for: .seconds(1))) != nil {
        let now = recorder.progress
        Log.standardError(
          "\r\u{1B}[K\(now.sent) sent, \(now.delivered) delivered, \(now.underWay) under way\(recorder.faultWords)")
      }
      Log.standardError("\r\u{1B}[K")
    }
  }
}

extension HistoryRecorder {
  fileprivate var faultWords: String {
    let faults = faults
    return faults.isEmpty ? "" : "; faults: \(faults.values.reduce(0, +)) made"
  }
}
