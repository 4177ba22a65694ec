internal import SimpIO

/// How a wait ended.
enum Waited<Value> {
  case value(Value)
  case timedOut
  case cancelled
}

extension Waited: Sendable where Value: Sendable {}

extension Waited {
  /// What was waited for, or the error of a wait that ended early.
  ///
  /// - Parameter purpose: completes "the time to wait …".
  func result<Success>(_ purpose: String) -> Result<Success, SIMPError> where Value == Result<Success, SIMPError> {
    switch self {
    case .value(let result): result
    case .timedOut: .failure(SIMPError(.timedOut, "the time to wait \(purpose) is over"))
    case .cancelled: .failure(SIMPError(.cancelled, "the task that waited \(purpose) was cancelled"))
    }
  }
}

/// A value under a lock that tasks can wait on. Any thread.
///
/// Waiters are told that something changed and look for themselves, in their own task: what they take out of the value
/// is theirs, and a wait that was cancelled has taken nothing.
///
/// `@unchecked Sendable`: `box` is touched in `withBox` only, under the lock.
final class Watched<Value: Sendable>: @unchecked Sendable {
  private struct Waiter {
    var id: UInt64
    var continuation: CheckedContinuation<Void, Never>
  }

  private struct Box {
    var value: Value
    /// Counts changes: a waiter that looked at an older one looks again.
    var version: UInt64 = 0
    var waiters: [Waiter] = []
    /// Waits under way, and whether they were ended by cancellation or by time.
    var waits: [UInt64: Bool] = [:]
    var lastWait: UInt64 = 0
  }

  private let lock: Locked<Bool>
  private var box: Box

  /// - Parameter lock: shared by many small values that are seldom touched at once, so that each costs less.
  init(_ value: Value, lock: Locked<Bool> = Locked(false)) {
    self.lock = lock
    box = Box(value: value)
  }

  private func withBox<Result>(_ body: (inout Box) -> Result) -> Result {
    var result: Result?
    lock.withLock { _ in result = body(&box) }
    guard let result else { preconditionFailure("the body of a lock did not run") }
    return result
  }

  /// How many tasks sleep until the next change.
  var sleepers: Int { withBox { $0.waiters.count } }

  func read<Result>(_ body: (Value) -> Result) -> Result { withBox { body($0.value) } }

  /// Changes the value without telling those who wait.
  func change<Result>(_ body: (inout Value) -> Result) -> Result { withBox { body(&$0.value) } }

  /// Changes the value and tells those who wait.
  func update<Result>(_ body: (inout Value) -> Result) -> Result {
    let (result, waiters) = withBox { box in
      let result = body(&box.value)
      box.version += 1
      let waiters = box.waiters
      if !waiters.isEmpty { box.waiters = [] }
      return (result, waiters)
    }
    // Outside the lock: a continuation may run at once.
    for waiter in waiters { waiter.continuation.resume() }
    return result
  }

  /// Waits until `check` finds what it looks for. It runs under the lock, and may change the value.
  ///
  /// - Parameters:
  ///   - timeout: nil waits for ever.
  ///   - isCancellable: whether cancelling the task ends the wait.
  func wait<Found>(
    timeout: Duration? = nil, isCancellable: Bool = true, isolation: isolated (any Actor)? = #isolation,
    until check: (inout Value) -> Found?
  ) async -> Waited<Found> {
    if isCancellable, Task.isCancelled { return .cancelled }
    // The common case first: it costs no task and no wait.
    if let found = change(check) { return .value(found) }
    let id = withBox { box in
      box.lastWait += 1
      box.waits[box.lastWait] = false
      return box.lastWait
    }
    let timer = timeout.map { timeout in
      Task { if (try? await Task.sleep(for: timeout)) != nil { end(id) } }
    }
    defer {
      timer?.cancel()
      withBox { box in box.waits[id] = nil }
    }
    while true {
      let (found, version, isEnded) = withBox { box in
        (check(&box.value), box.version, box.waits[id] == true)
      }
      if let found { return .value(found) }
      if isEnded { return isCancellable && Task.isCancelled ? .cancelled : .timedOut }
      if isCancellable {
        await withTaskCancellationHandler {
          await sleep(id, since: version)
        } onCancel: {
          end(id)
        }
      } else {
        await sleep(id, since: version)
      }
    }
  }

  private func sleep(
    _ id: UInt64, since version: UInt64, isolation: isolated (any Actor)? = #isolation
  ) async {
    await withCheckedContinuation { continuation in
      let sleeps = withBox { box in
        guard box.version == version, box.waits[id] == false else { return false }
        box.waiters.append(Waiter(id: id, continuation: continuation))
        return true
      }
      if !sleeps { continuation.resume() }
    }
  }

  private func end(_ id: UInt64) {
    let waiter = withBox { box -> Waiter? in
      guard box.waits[id] != nil else { return nil }
      box.waits[id] = true
      guard let index = box.waiters.firstIndex(where: { $0.id == id }) else { return nil }
      return box.waiters.remove(at: index)
    }
    waiter?.continuation.resume()
  }
}
