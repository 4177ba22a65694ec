internal import SimpCore
internal import SimpIO

/// The one thread on which all connections of a program do their I/O. Made at first use, there until the end.
///
/// `@unchecked Sendable`: `dirty` is touched on the loop's thread only, which `markDirty` checks in debug builds.
final class IOThread: @unchecked Sendable {
  private static let one = Locked<IOThread?>(nil)

  let loop: EventLoop
  private var dirty: [Driver] = []

  /// - Throws: `system` when there are no descriptors left; the next call tries again.
  static func shared() throws(SIMPError) -> IOThread {
    let made = one.withLock { one -> Result<IOThread, IOError> in
      if let one { return .success(one) }
      return Result { () throws(IOError) in
        let thread = IOThread(try EventLoop())
        one = thread
        return thread
      }
    }
    do throws(IOError) {
      return try made.get()
    } catch {
      throw SIMPError(.system, "\(error)")
    }
  }

  private init(_ loop: EventLoop) {
    self.loop = loop
    loop.addTurnEnd { [unowned self] in turnEnd() }
    loop.startThread(name: "simp-io")
  }

  /// The driver has something to do at the end of this turn; it sees to it that it is entered once.
  func markDirty(_ driver: Driver) {
    assert(loop.isCurrent)
    dirty.append(driver)
  }

  private func turnEnd() {
    // A driver that is marked again by its own work has its turn at once: nothing waits for the next event.
    var rounds = 0
    while !dirty.isEmpty, rounds < 4 {
      let drivers = dirty
      dirty.removeAll(keepingCapacity: true)
      let now = loop.now
      for driver in drivers { driver.turn(now: now) }
      rounds += 1
    }
    if !dirty.isEmpty { loop.execute {} }
  }
}
