internal import SimpIO

/// Something that one task waits for and others announce. An announcement without anybody waiting is kept for the next
/// wait; several are one.
final class Gate: Sendable {
  private struct State {
    var isOpen = false
    var waiter: CheckedContinuation<Void, Never>?
  }

  private let state = Locked(State())

  func open() {
    let waiter = state.withLock { state in
      let waiter = state.waiter
      state.waiter = nil
      state.isOpen = waiter == nil
      return waiter
    }
    waiter?.resume()
  }

  /// Waits for an announcement, or for the task to be cancelled.
  func wait() async {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let resumesNow = state.withLock { state in
          precondition(state.waiter == nil, "one task waits at a gate")
          if state.isOpen || Task.isCancelled {
            state.isOpen = false
            return true
          }
          state.waiter = continuation
          return false
        }
        if resumesNow { continuation.resume() }
      }
    } onCancel: {
      open()
    }
  }
}
