internal import CSimpLinux
internal import Glibc

/// Watches a socket that a C library owns: it is told when the socket can be read or written, and never closes it.
///
/// A duplicate of the descriptor is watched, so that the library may close its own at any time. On the loop's thread.
public final class DescriptorWatch: PollOwner, LoopResource {
  private let poller: Poller
  private unowned let loop: EventLoop
  private var handler: ((_ readable: Bool, _ writable: Bool) -> Void)?

  /// - Parameters:
  ///   - fd: stays the caller's.
  ///   - handler: called as long as what is asked for with `watch` is the case. After an error of the socket both are
  ///     true, so that whichever the library tries fetches it.
  /// - Throws: `IOError` when descriptors have run out.
  public init(
    loop: EventLoop, fd: Int32, handler: @escaping (_ readable: Bool, _ writable: Bool) -> Void
  ) throws(IOError) {
    loop.preconditionCurrent()
    let duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 0)
    guard duplicate >= 0 else { throw IOError(code: errno, operation: "watch a descriptor") }
    poller = try Poller(loop: loop, fd: duplicate)
    self.loop = loop
    self.handler = handler
    poller.owner = self
    loop.register(self)
  }

  /// From now on tells of these; of nothing when both are false.
  public func watch(readable: Bool, writable: Bool) {
    var events: Poller.Events = []
    if readable { events.insert(.readable) }
    if writable { events.insert(.writable) }
    poller.watch(events)
  }

  /// Ends watching and lets go of the handler. May be called twice.
  public func close() {
    handler = nil
    poller.close()
    loop.unregister(self)
  }

  func ready(_ events: Poller.Events) {
    // Held here: the handler may close this.
    let handler = handler
    if events.contains(.failed) {
      handler?(true, true)
    } else {
      handler?(events.contains(.readable), events.contains(.writable))
    }
  }
}
