internal import CSimpLinux
internal import CUV
public import SimpCore
internal import Synchronization

/// One thread's loop over sockets, timers and work from other threads. libuv underneath.
///
/// A turn of the loop is: run what arrived, then the turn-end hooks, then send what was written, then sleep until
/// something happens. Objects made on a loop (timers, streams, sockets) are touched on its thread only; before the
/// loop runs, the thread that sets it up counts as its own.
///
/// Whoever makes a loop calls `close()` in the end; open sockets keep it alive until then.
///
/// `@unchecked Sendable`: `execute`, `stop`, `close`, `isCurrent` and `now` may be called from any thread and touch
/// only `mailbox`, `lifecycle` and `owner`, each of them a lock or an atomic. Everything else belongs to the thread
/// in `owner`, which every method that touches it checks in debug builds.
@safe
public final class EventLoop: @unchecked Sendable {
  private struct Mailbox {
    var letters: [@Sendable () -> Void] = []
    var isWoken = false
    var isStopped = false
    /// Set while `wake` is a live handle: `uv_async_send` is only called under the lock and with this set.
    var isOpen = true
  }

  private struct Lifecycle {
    var isRunning = false
    var isFreed = false
    var closesAfterRun = false
    var thread: UInt64?
  }

  let uv: UnsafeMutablePointer<uv_loop_t>
  private let wake: UnsafeMutablePointer<uv_async_t>
  private let beforeSleep: UnsafeMutablePointer<uv_prepare_t>
  private let mailbox = Locked(Mailbox())
  private let lifecycle = Locked(Lifecycle())
  private let owner = Atomic<UInt64>(0)

  // On the loop's thread only, from here.
  private var turnEnds: [TurnEnd] = []
  private var dirty: [any TurnFlushed] = []
  private var flushing: [any TurnFlushed] = []
  private var resources: [ObjectIdentifier: any LoopResource] = [:]
  private var lookups: [UInt64: (Result<[PeerAddress], IOError>) -> Void] = [:]
  private var lastLookup: UInt64 = 0
  private(set) var timers: TimerQueue!
  let scratch = ReadScratch()

  /// - Throws: `IOError` when descriptors have run out.
  public init() throws(IOError) {
    unsafe uv = .allocate(capacity: 1)
    unsafe wake = .allocate(capacity: 1)
    unsafe beforeSleep = .allocate(capacity: 1)
    let status = unsafe uv_loop_init(uv)
    guard status == 0 else {
      deallocate()
      throw IOError(code: -status, operation: "make an event loop")
    }
    // SAFETY: the three handles live until `free` has seen them closed; the callbacks run inside `run` or `free`,
    // while the loop object is alive.
    let selfPointer = unsafe Unmanaged.passUnretained(self).toOpaque()
    let asyncStatus = unsafe uv_async_init(uv, wake) { handle in
      unsafe Unmanaged<EventLoop>.fromOpaque(handle!.pointee.data).takeUnretainedValue().readMail()
    }
    guard asyncStatus == 0 else {
      unsafe uv_loop_close(uv)
      deallocate()
      throw IOError(code: -asyncStatus, operation: "make an event loop")
    }
    unsafe uv_prepare_init(uv, beforeSleep)
    unsafe wake.pointee.data = selfPointer
    unsafe beforeSleep.pointee.data = selfPointer
    unsafe uv_prepare_start(beforeSleep) { handle in
      unsafe Unmanaged<EventLoop>.fromOpaque(handle!.pointee.data).takeUnretainedValue().endTurn()
    }
    do throws(IOError) {
      timers = try TimerQueue(loop: self)
    } catch {
      free()
      throw error
    }
  }

  deinit {
    // Nothing is open any more, or the loop would be held: only its own handles are left.
    if lifecycle.withLock({ !$0.isFreed }) { free() }
  }

  // MARK: Running

  /// Runs the loop on the calling thread until `stop()`. Work given before `stop()` is done, and what was written is
  /// offered to the kernel once more.
  public func run() {
    let mayRun = lifecycle.withLock { state in
      if state.isFreed || state.isRunning { return false }
      state.isRunning = true
      return true
    }
    if mayRun { runToEnd() }
  }

  /// Runs the loop on a thread of its own, in which all signals are blocked.
  ///
  /// - Parameters:
  ///   - name: shows in tools (15 bytes).
  ///   - niceness: by how much it yields the processor to other threads (0 to 19, `setpriority(2)`); without effect where
  ///     the system does not permit it.
  public func startThread(name: String, niceness: Int32 = 0) {
    lifecycle.withLock { state in
      precondition(!state.isFreed && !state.isRunning, "the loop is closed or runs already")
      // SAFETY: the thread takes over the retain and gives it back at its end.
      let selfPointer = unsafe Unmanaged.passRetained(self).toOpaque()
      var thread: UInt64 = 0
      let status = unsafe simp_thread_start(
        name, niceness, { raw in unsafe Unmanaged<EventLoop>.fromOpaque(raw!).takeRetainedValue().runToEnd() },
        selfPointer,
        &thread)
      precondition(status == 0, "a thread cannot be started: \(IOError(code: -status, operation: "start a thread"))")
      state.thread = thread
      state.isRunning = true
      // Before the first caller can ask: from here on the new thread owns the loop.
      owner.store(thread, ordering: .releasing)
    }
  }

  private func runToEnd() {
    owner.store(simp_thread_current(), ordering: .releasing)
    unsafe uv_run(uv, UV_RUN_DEFAULT)
    endTurn()
    let freesNow = lifecycle.withLock { state in
      let freesNow = state.closesAfterRun && !state.isFreed
      if freesNow { state.isFreed = true }
      state.isRunning = false
      return freesNow
    }
    if freesNow { free() }
    owner.store(0, ordering: .releasing)
  }

  /// Ends `run()`, from any thread. Work given earlier is still done; later work is dropped.
  public func stop() {
    mailbox.withLock { box in
      box.isStopped = true
      wakeUp(&box)
    }
  }

  /// Stops the loop, waits for it (on its own thread: ends after the present turn) and frees everything that is
  /// still open on it, without calling their handlers. May be called twice, and from any thread.
  public func close() {
    stop()
    let (freesNow, thread) = lifecycle.withLock { state -> (Bool, UInt64?) in
      if state.isFreed || state.isRunning {
        state.closesAfterRun = true
        let thread = state.thread
        state.thread = nil
        return (false, thread)
      }
      state.isFreed = true
      let thread = state.thread
      state.thread = nil
      return (true, thread)
    }
    if let thread {
      if thread == simp_thread_current() { simp_thread_detach(thread) } else { _ = simp_thread_join(thread) }
    }
    if freesNow { free() }
  }

  /// On the loop's last thread, with nothing running.
  private func free() {
    for (_, resource) in resources { resource.close() }
    resources = [:]
    timers?.close()
    for hook in turnEnds { hook.remove() }
    dirty = []
    lookups = [:]
    let unread = mailbox.withLock { box in
      box.isOpen = false
      box.isStopped = true
      let letters = box.letters
      box.letters = []
      return letters
    }
    // Outside the lock: what a closure holds may come back to this loop as it dies.
    _ = consume unread
    // SAFETY: the handles are closed here and nowhere else; the run lets libuv call all close callbacks, after
    // which no handle refers to the memory freed below.
    unsafe wake.withMemoryRebound(to: uv_handle_t.self, capacity: 1) { handle in unsafe uv_close(handle, nil) }
    unsafe beforeSleep.withMemoryRebound(to: uv_handle_t.self, capacity: 1) { handle in unsafe uv_close(handle, nil) }
    unsafe uv_run(uv, UV_RUN_DEFAULT)
    let status = unsafe uv_loop_close(uv)
    precondition(status == 0, "an event loop was closed with live handles")
    deallocate()
  }

  private func deallocate() {
    unsafe uv.deallocate()
    unsafe wake.deallocate()
    unsafe beforeSleep.deallocate()
    lifecycle.withLock { $0.isFreed = true }
  }

  // MARK: Work from other threads

  /// Runs `body` on the loop, in the order given. From any thread; many calls cost one wake-up. Dropped after `stop()`.
  public func execute(_ body: @escaping @Sendable () -> Void) {
    mailbox.withLock { box in
      guard !box.isStopped else { return }
      box.letters.append(body)
      wakeUp(&box)
    }
  }

  private func wakeUp(_ box: inout Mailbox) {
    guard box.isOpen, !box.isWoken else { return }
    box.isWoken = true
    // SAFETY: `wake` is live while `isOpen`, which is changed under the same lock.
    unsafe uv_async_send(wake)
  }

  private func readMail() {
    let (letters, isStopped) = mailbox.withLock { box in
      box.isWoken = false
      let letters = box.letters
      box.letters = []
      return (letters, box.isStopped)
    }
    for letter in letters { letter() }
    if isStopped { unsafe uv_stop(uv) }
  }

  /// Whether the caller is on this loop's thread, or the loop does not run.
  public var isCurrent: Bool {
    let thread = owner.load(ordering: .acquiring)
    return thread == 0 || thread == simp_thread_current()
  }

  public func preconditionCurrent() {
    precondition(isCurrent, "an object of an event loop was touched on another thread")
  }

  // MARK: Time

  /// The monotonic clock, read now.
  public var now: Instant { Instant(nanoseconds: simp_monotonic_nanoseconds()) }

  /// The wall clock, in milliseconds since 1970.
  public static var wallClockMilliseconds: UInt64 { simp_wall_milliseconds() }

  /// The wall clock, in seconds since 1970.
  public static var wallClockSeconds: UInt64 { simp_wall_milliseconds() / 1000 }

  /// A timer, not armed yet.
  public func makeTimer(_ handler: @escaping () -> Void) -> LoopTimer {
    assert(isCurrent)
    return LoopTimer(queue: timers, handler: handler)
  }

  // MARK: The end of a turn

  /// Calls `body` at the end of each turn, before the loop sleeps: the one place where queued work is flushed. Hooks
  /// run in the order they were added.
  ///
  /// - Returns: the hook, to `remove()` it; it stays if that is never called.
  @discardableResult
  public func addTurnEnd(_ body: @escaping () -> Void) -> TurnEnd {
    assert(isCurrent)
    let hook = TurnEnd(loop: self, body: body)
    turnEnds.append(hook)
    return hook
  }

  func remove(_ hook: TurnEnd) { turnEnds.removeAll { $0 === hook } }

  /// Has `object` flushed at the end of this turn, after the hooks. The caller sees to it that it is asked once.
  func markDirty(_ object: any TurnFlushed) { dirty.append(object) }

  /// Runs `body` at the end of this turn, after the hooks: for a handler that may not be called from where it arose.
  func later(_ body: @escaping () -> Void) { dirty.append(Later(body: body)) }

  private func endTurn() {
    for hook in turnEnds { hook.body?() }
    // BOUND: flushing may call a drain handler that writes again; after 8 rounds the loop takes another turn first,
    // so that sockets and timers are heard.
    var rounds = 0
    while !dirty.isEmpty && rounds < 8 {
      swap(&dirty, &flushing)
      for object in flushing { object.flushAtTurnEnd() }
      flushing.removeAll(keepingCapacity: true)
      rounds += 1
    }
    if !dirty.isEmpty { mailbox.withLock { box in wakeUp(&box) } }
  }

  // MARK: What is open

  func register(_ resource: any LoopResource) { resources[ObjectIdentifier(resource)] = resource }
  func unregister(_ resource: any LoopResource) { resources[ObjectIdentifier(resource)] = nil }

  /// Keeps the completion of a name lookup while a thread works on it; the number finds it again.
  func enterLookup(_ completion: @escaping (Result<[PeerAddress], IOError>) -> Void) -> UInt64 {
    lastLookup += 1
    lookups[lastLookup] = completion
    return lastLookup
  }

  func leaveLookup(_ number: UInt64) -> ((Result<[PeerAddress], IOError>) -> Void)? {
    lookups.removeValue(forKey: number)
  }
}

/// A hook of `EventLoop.addTurnEnd`.
public final class TurnEnd {
  private unowned let loop: EventLoop
  fileprivate private(set) var body: (() -> Void)?

  init(loop: EventLoop, body: @escaping () -> Void) {
    self.loop = loop
    self.body = body
  }

  /// The hook is not called again. On the loop's thread; may be called twice.
  public func remove() {
    guard body != nil else { return }
    body = nil
    loop.remove(self)
  }
}

private final class Later: TurnFlushed {
  private let body: () -> Void
  init(body: @escaping () -> Void) { self.body = body }
  func flushAtTurnEnd() { body() }
}

/// Something with output that leaves at the end of the turn.
protocol TurnFlushed: AnyObject {
  func flushAtTurnEnd()
}

/// Something that is open on a loop and is closed with it.
protocol LoopResource: AnyObject {
  func close()
}
