internal import SimpCore
internal import SimpIO
internal import SimpSupport

/// Takes events from all threads of a process: gives each its time, hands it to the checker, writes it down.
final class HistoryRecorder: Sendable {
  private struct State {
    var check = HistoryCheck()
    var trouble: OutputWriter.Failure?
  }

  /// Time 0 of the history.
  let epoch: Instant
  private let file: HistoryFile?
  private let state = Locked(State())

  init(epoch: Instant, file: HistoryFile?) {
    self.epoch = epoch
    self.file = file
  }

  func record(_ what: HistoryEvent.What) {
    let event = HistoryEvent(time: UInt64(max(0, (Clock.now - epoch).nanoseconds / 1000)), what: what)
    // The line first: who reads a history of somebody killed must find what led to anything that follows.
    let line = file.map { _ in event.line }
    state.withLock { state in
      state.check.note(event)
      if let line { write(line, &state) }
    }
  }

  /// An event that another process wrote down.
  @discardableResult
  func take(_ line: Substring) -> HistoryEvent? {
    let event = HistoryEvent(line: line)
    state.withLock { state in
      if let event { state.check.note(event) } else { state.check.noteUnreadable() }
      write(line, &state)
    }
    return event
  }

  private func write(_ line: some StringProtocol, _ state: inout State) {
    guard let file, state.trouble == nil else { return }
    do throws(OutputWriter.Failure) {
      try file.write(line)
    } catch {
      state.trouble = error
    }
  }

  var progress: HistoryCheck.Progress { state.withLock { $0.check.progress } }
  /// How often each fault was made so far.
  var faults: [String: UInt64] { state.withLock { $0.check.faults } }
  /// The verdict if nothing more happened; looks at every message.
  var verdict: HistoryVerdict { state.withLock { $0.check }.verdict }
  /// Why the history is not written to its end.
  var trouble: OutputWriter.Failure? { state.withLock { $0.trouble } }
}
