internal import CSimpLinux
internal import CUV

/// Watches one descriptor on a loop, and owns it: closed with the poller.
@safe
final class Poller {
  struct Events: OptionSet {
    let rawValue: Int32
    static let readable = Events(rawValue: 1)
    static let writable = Events(rawValue: 2)
    /// The descriptor has an error to fetch. Watching has ended and is asked for again with `watch`.
    static let failed = Events(rawValue: 1 << 16)
  }

  let fd: Int32
  /// Who is told. Dropped by `close`, which ends the circle between the two.
  var owner: (any PollOwner)?
  private let handle: UnsafeMutablePointer<uv_poll_t>
  private var watched: Events = []
  private(set) var isClosed = false

  /// Takes over `fd`, also when it throws.
  init(loop: EventLoop, fd: Int32) throws(IOError) {
    self.fd = fd
    unsafe handle = .allocate(capacity: 1)
    let status = unsafe uv_poll_init(loop.uv, handle, fd)
    guard status == 0 else {
      _ = simp_close(fd)
      unsafe handle.deallocate()
      isClosed = true
      throw IOError(code: -status, operation: "watch a descriptor")
    }
    // SAFETY: libuv uses the handle until its close callback, which gives back this retain and the memory, once.
    unsafe handle.pointee.data = Unmanaged.passRetained(self).toOpaque()
  }

  /// Watches for these events from now on; nothing when empty.
  func watch(_ events: Events) {
    // Each change costs libuv two system calls.
    guard events != watched, !isClosed else { return }
    watched = events
    if events.isEmpty {
      unsafe uv_poll_stop(handle)
      return
    }
    // SAFETY: the handle is live until `close`; the callback holds the poller for its duration.
    let status = unsafe uv_poll_start(handle, events.rawValue) { handle, status, events in
      let poller = unsafe Unmanaged<Poller>.fromOpaque(handle!.pointee.data).takeUnretainedValue()
      poller.came(status: status, events: Events(rawValue: events))
    }
    precondition(status == 0, "uv_poll_start on a live descriptor failed")
  }

  private func came(status: Int32, events: Events) {
    guard let owner else { return }
    if status < 0 {
      // libuv reports a socket error so, and has stopped watching.
      watched = []
      owner.ready(.failed)
    } else {
      owner.ready(events)
    }
  }

  /// Tells the peer of a stream socket that no more bytes come.
  ///
  /// - Returns: false when there is no connection any more.
  @discardableResult
  func endOutput() -> Bool { simp_tcp_end_output(fd) == 0 }

  /// Ends watching and closes the descriptor. May be called twice.
  func close() {
    guard !isClosed else { return }
    _ = simp_close(release())
  }

  /// Ends watching, and leaves the descriptor to the caller, who may have another loop watch it at once. Once, while open.
  func release() -> Int32 {
    precondition(!isClosed, "a closed descriptor was let go")
    isClosed = true
    owner = nil
    // SAFETY: libuv lets go of the descriptor inside `uv_close`, so that it is free right after it.
    unsafe handle.withMemoryRebound(to: uv_handle_t.self, capacity: 1) { handle in
      unsafe uv_close(handle) { handle in
        let poller = unsafe Unmanaged<Poller>.fromOpaque(handle!.pointee.data).takeRetainedValue()
        unsafe poller.handle.deallocate()
      }
    }
    return fd
  }
}

/// Whom a `Poller` tells.
protocol PollOwner: AnyObject {
  func ready(_ events: Poller.Events)
}
