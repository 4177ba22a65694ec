public import SimpCore

/// A deadline on a loop. Fires once for each time it is armed, never before its deadline, with the clock's nanosecond
/// resolution.
///
/// Moving an armed timer to a later deadline, or disarming it, costs neither a system call nor a search: the entry in
/// the queue stays and looks at the deadline again when its time comes.
public final class LoopTimer {
  private let queue: TimerQueue
  private var handler: (() -> Void)?
  /// When to fire; `.never` when not armed.
  public private(set) var deadline = Instant.never

  // The queue's: where this timer stands in it (-1: nowhere), and for when.
  var slot = -1
  var queuedFor = Instant.never

  init(queue: TimerQueue, handler: @escaping () -> Void) {
    self.queue = queue
    self.handler = handler
  }

  /// Whether the handler will be called.
  public var isArmed: Bool { deadline != .never }

  /// Fires at `deadline` instead of any earlier setting; at the next turn when that is past. `.never` disarms.
  public func arm(at deadline: Instant) {
    guard handler != nil else { return }
    self.deadline = deadline
    if deadline != .never && deadline < queuedFor { queue.enter(self) }
  }

  /// The handler is not called until the timer is armed again.
  public func disarm() { deadline = .never }

  /// Disarms for good and lets go of the handler, which often holds the one who holds the timer. May be called twice.
  public func close() {
    deadline = .never
    handler = nil
    queue.leave(self)
  }

  /// Called by the queue, not before `queuedFor`.
  func come(at now: Instant) {
    guard deadline <= now else {
      if isArmed && deadline < queuedFor { queue.enter(self) }
      return
    }
    deadline = .never
    // Held here: the handler may close the timer that owns it.
    let handler = handler
    handler?()
  }
}
