internal import CSimpLinux
internal import Glibc
public import SimpCore

/// A TCP connection: bytes in, bytes out, in order, until one side ends it. On its loop's thread only.
///
/// Writing never blocks and never raises SIGPIPE: bytes are queued and leave at the end of the turn, as one piece.
/// Who writes watches `pendingBytes`, and goes on at `onDrain`; the stream itself sets no limit.
/// Handlers are called from the loop, never from inside a method of the stream, and not after `close()`.
@safe
public final class Stream {
  enum State { case connecting, greeting, open, closing, closed }

  /// How long an ending stream waits for its peer to take the rest, when the owner gives no deadline.
  static let defaultGrace = Interval.seconds(2)
  /// BOUND: reads of 64 KiB a stream and turn, so that one busy peer does not keep the others waiting.
  private static let readsPerTurn = 4

  public let loop: EventLoop
  public let remoteAddress: PeerAddress
  public internal(set) var localAddress: PeerAddress

  /// Called with bytes as they came, of any number; the span is good until the handler returns. While it is nil
  /// nothing is read, and what came with a greeting waits for it.
  public var onBytes: ((Span<UInt8>) -> Void)? {
    didSet {
      if onBytes != nil, !unread.isEmpty { loop.later { [self] in handUnread() } }
      updateWatch()
    }
  }

  /// Called once when bytes may pass, of a stream that was accepted: after its pipe is set up.
  public var onOpen: (() -> Void)?

  /// Called once when the peer ended the connection (nil) or it broke. After nil the owner may still `write` and
  /// `closeAfterFlush`; if it does neither, what is pending is sent and the stream closes.
  public var onClose: ((IOError?) -> Void)?

  /// Called when everything is with the kernel again, after it once took no more.
  public var onDrain: (() -> Void)?

  /// Asked, while it is set, when the pipe's greeting came whole and before the pipe sees it: false keeps it, and nothing
  /// is read, until `resumeReading()`. Setting up a pipe may cost more than anything else a peer can ask for.
  public var mayGreet: (() -> Bool)?

  /// Called once when the descriptor is closed, however that came.
  public var onGone: (() -> Void)?

  let poller: Poller
  /// nil for a plain stream.
  let pipe: (any BytePipe)?
  var state: State
  var completion: ((Result<Stream, IOError>) -> Void)?
  var timer: LoopTimer?
  var onClosed: (() -> Void)?

  // BOUND: what one read brings beyond a whole greeting, which the pipe bounds.
  private var greeting: [UInt8] = []
  private var wakingBytes = 1
  private var isPaused = false
  var hasPeerEnded = false
  private var hasFarewell = false
  private var hasEndedOutput = false
  private(set) var failure: IOError?
  // BOUND: what one read brings, for nothing is read while nobody takes it.
  var unread: [UInt8] = []

  private var plainOut: [UInt8] = []
  var output = SendBuffer()
  private var isBlocked = false
  private var isDrained = false
  private var isDirty = false

  init(loop: EventLoop, fd: Int32, remote: PeerAddress, pipe: any BytePipe, state: State) throws(IOError) {
    self.loop = loop
    self.remoteAddress = remote
    self.localAddress = .local(of: fd)
    self.pipe = pipe is PlainPipe ? nil : pipe
    self.state = state
    poller = try Poller(loop: loop, fd: fd)
    poller.owner = self
    loop.register(self)
  }

  public var isClosed: Bool { state == .closed }

  /// Whether the pipe is set up: before, the peer could read nothing that is written.
  public var isOpen: Bool { state == .open }

  /// What TLS agreed on; nil without TLS, or before the handshake is done.
  public var agreement: TLSPipe.Agreement? { (pipe as? TLSPipe)?.agreement }

  // MARK: Writing

  /// Queues `bytes`; they leave at the end of this turn. Nothing happens once the stream is ending.
  public func write(_ bytes: [UInt8]) {
    assert(loop.isCurrent)
    guard state != .closing && state != .closed && failure == nil, !bytes.isEmpty else { return }
    if pipe == nil { output.bytes.append(contentsOf: bytes) } else { plainOut.append(contentsOf: bytes) }
    markDirty()
  }

  /// Queues a copy of `bytes`, as `write(_: [UInt8])` does.
  public func write(_ bytes: Span<UInt8>) {
    assert(loop.isCurrent)
    guard state != .closing && state != .closed && failure == nil, !bytes.isEmpty else { return }
    if pipe == nil { output.bytes.append(copying: bytes) } else { plainOut.append(copying: bytes) }
    markDirty()
  }

  /// Bytes written and not yet taken by the kernel.
  public var pendingBytes: Int { plainOut.count + output.count }

  /// Offers what is pending to the kernel now, without waiting for the end of the turn.
  public func flush() {
    assert(loop.isCurrent)
    guard state != .closed && state != .connecting, failure == nil else { return }
    do throws(PipeError) {
      if let pipe, pipe.isReady, !plainOut.isEmpty {
        try pipe.send(plainOut.span, wire: &output.bytes)
        // A login reply has keys in it.
        plainOut.wipe(keepingCapacity: plainOut.capacity <= 16 * 1024)
      }
    } catch {
      return fail(IOError(error, operation: "send to", with: remoteAddress))
    }
    switch output.send(to: poller.fd) {
    case .sent:
      if isBlocked {
        isBlocked = false
        isDrained = true
        markDirty()
      }
    case .blocked:
      isBlocked = true
    case .failed(let code):
      return fail(IOError(code: code, operation: "send to", subject: "\(remoteAddress)"))
    }
    updateWatch()
  }

  func markDirty() {
    guard !isDirty else { return }
    isDirty = true
    loop.markDirty(self)
  }

  // MARK: Reading

  /// Nothing is read, and so the peer is slowed down by TCP, until `resumeReading()`.
  public func pauseReading() {
    isPaused = true
    updateWatch()
  }

  public func resumeReading() {
    isPaused = false
    if !greeting.isEmpty { loop.later { [self] in greet() } }
    updateWatch()
  }

  /// Whether the peer has ended the connection or it broke, also while nothing is read. Asks the kernel.
  public var hasPeerGone: Bool { state == .closed || hasPeerEnded || simp_tcp_has_ended(poller.fd) != 0 }

  private var wantsBytes: Bool {
    switch state {
    case .connecting, .closed: false
    case .greeting: !isPaused && !hasPeerEnded
    case .open: onBytes != nil && !isPaused && !hasPeerEnded
    case .closing: !hasPeerEnded
    }
  }

  private func updateWatch() {
    var events: Poller.Events = []
    if wantsBytes { events.insert(.readable) }
    if isBlocked || state == .connecting { events.insert(.writable) }
    poller.watch(events)
  }

  func startWatching() { updateWatch() }

  private func read() {
    for _ in 0..<Stream.readsPerTurn {
      guard wantsBytes else { return }
      let room = unsafe loop.scratch.stream
      // SAFETY: `room` lives as long as the loop, and only one stream of it reads at a time.
      let got = unsafe Int(simp_tcp_receive(poller.fd, room.baseAddress!, room.count))
      switch got {
      case 1...:
        unsafe take(UnsafeBufferPointer(rebasing: room[..<got]).span)
        if got < ReadScratch.streamBytes { return }
      case 0:
        return takeEnd()
      case Int(-EAGAIN):
        return
      default:
        return breakOff(IOError(code: Int32(-got), operation: "receive from", subject: "\(remoteAddress)"))
      }
    }
  }

  private func greet() {
    guard state == .greeting, !isPaused, !greeting.isEmpty, let pipe else { return }
    let shortage = pipe.greetingShortage(greeting.span)
    guard shortage == 0 else { return wakeFrom(shortage) }
    if let mayGreet {
      guard mayGreet() else { return pauseReading() }
      self.mayGreet = nil
    }
    wakeFrom(1)
    let bytes = greeting
    greeting = []
    take(bytes.span)
  }

  /// The loop hears of the socket only when so many bytes are there, or its end: who sends a greeting byte by byte wakes
  /// nobody.
  private func wakeFrom(_ bytes: Int) {
    guard bytes != wakingBytes else { return }
    wakingBytes = bytes
    // A kernel that refuses costs wake-ups only.
    _ = simp_tcp_wake_from(poller.fd, Int32(clamping: bytes))
  }

  private func take(_ bytes: Span<UInt8>) {
    guard let pipe else {
      if state == .open { hand(over: bytes) }
      return
    }
    if state == .greeting, mayGreet != nil || !greeting.isEmpty {
      greeting.append(copying: bytes)
      return greet()
    }
    var plain: [UInt8] = []
    do throws(PipeError) {
      let before = output.bytes.count
      try pipe.receive(bytes, plain: &plain, reply: &output.bytes)
      if output.bytes.count > before { markDirty() }
    } catch {
      // The pipe's own last word (an alert) still goes out if the kernel takes it.
      _ = output.send(to: poller.fd)
      return breakOff(
        IOError(error, operation: "receive from", with: remoteAddress))
    }
    if state == .greeting && pipe.isReady { becomeOpen() }
    if !plain.isEmpty && state == .open { hand(over: plain.span) }
    if pipe.isEnded && state != .closed { takeEnd() }
  }

  private func hand(over plain: Span<UInt8>) {
    guard unread.isEmpty, let onBytes else { return unread.append(copying: plain) }
    onBytes(plain)
  }

  private func handUnread() {
    guard state == .open, let onBytes, !unread.isEmpty else { return }
    let bytes = unread
    unread = []
    onBytes(bytes.span)
  }

  private func takeEnd() {
    guard !hasPeerEnded else { return }
    hasPeerEnded = true
    switch state {
    case .connecting, .closed: break
    case .greeting:
      let reason = "the peer closed the connection before it was set up"
      breakOff(IOError(code: ECONNRESET, operation: "connect to", subject: "\(remoteAddress)", detail: reason))
    case .open:
      let handler = onClose
      onClose = nil
      handler?(nil)
      if state == .open { closeAfterFlush(deadline: Stream.defaultGrace) }
    case .closing: if hasEndedOutput { finishClosing() }
    }
    if state != .closed { updateWatch() }
  }

  // MARK: Setting up

  /// The socket is connected: the pipe may begin.
  func begin() {
    state = .greeting
    if let pipe {
      do throws(PipeError) {
        try pipe.start(wire: &output.bytes)
      } catch {
        return breakOff(
          IOError(error, operation: "connect to", with: remoteAddress))
      }
      if output.count > 0 { markDirty() }
      if mayGreet != nil { wakeFrom(max(1, pipe.greetingShortage(greeting.span))) }
    }
    if pipe?.isReady ?? true { becomeOpen() }
    updateWatch()
  }

  private func becomeOpen() {
    state = .open
    if !plainOut.isEmpty { markDirty() }
    if onOpen != nil {
      loop.later { [self] in
        guard state == .open, let onOpen else { return }
        self.onOpen = nil
        onOpen()
      }
    }
    guard let completion else { return }
    self.completion = nil
    timer?.close()
    timer = nil
    completion(.success(self))
  }

  // MARK: Ending

  /// Sends what is pending, ends the output, waits for the peer to end too (its bytes are dropped), then closes. No
  /// handler is called any more but `onClosed`.
  ///
  /// Closing at once would make the kernel answer the peer's bytes with a reset, which can overtake what was sent.
  /// - Parameters:
  ///   - deadline: after this long the stream is closed, sent or not.
  ///   - onClosed: called when it is closed, however that came; not if `close()` does it.
  public func closeAfterFlush(deadline: Interval, onClosed: (() -> Void)? = nil) {
    assert(loop.isCurrent)
    guard state == .open || state == .greeting else {
      if state == .connecting {
        close()
        if let onClosed { loop.later(onClosed) }
      }
      return
    }
    dropHandlers()
    self.onClosed = onClosed
    // What a pipe could not take before its greeting is over is given up: the peer cannot read it.
    if state == .greeting { plainOut.wipe() }
    state = .closing
    wakeFrom(1)
    timer?.close()
    timer = loop.makeTimer { [unowned self] in finishClosing() }
    timer?.arm(at: loop.now + deadline)
    markDirty()
    updateWatch()
  }

  private func continueClosing() {
    guard !hasEndedOutput else { return }
    if let pipe, plainOut.isEmpty, !hasFarewell {
      hasFarewell = true
      pipe.finish(wire: &output.bytes)
      flush()
    }
    guard state == .closing, pendingBytes == 0 else { return }
    hasEndedOutput = true
    if !poller.endOutput() || hasPeerEnded { finishClosing() }
  }

  private func finishClosing() {
    let handler = onClosed
    onClosed = nil
    close()
    handler?()
  }

  /// Closes at once: what is pending is dropped, no handler is called any more. May be called twice.
  public func close() {
    guard state != .closed else { return }
    poller.close()
    leaveLoop()
    plainOut.wipe()
    unread.wipe()
    output.bytes = []
    onGone?()
    onGone = nil
  }

  /// The poller is closed, or has let go.
  func leaveLoop() {
    state = .closed
    loop.unregister(self)
    timer?.close()
    timer = nil
    completion = nil
    onClosed = nil
    dropHandlers()
    greeting = []
  }

  /// What they hold may hold the stream.
  private func dropHandlers() {
    onBytes = nil
    onOpen = nil
    onClose = nil
    onDrain = nil
    mayGreet = nil
  }

  /// Output broke. What the peer sent before is still read first (at the end of the turn): it may say why.
  private func fail(_ error: IOError) {
    guard failure == nil else { return }
    failure = error
    plainOut.wipe()
    output.clear()
    isBlocked = false
    markDirty()
  }

  /// Tells the owner that the connection is no more, and closes it. From the loop only.
  func breakOff(_ error: IOError) {
    let (completion, onClose, onClosed) = (completion, onClose, onClosed)
    close()
    completion?(.failure(error))
    onClose?(error)
    onClosed?()
  }
}

extension Stream: PollOwner, TurnFlushed, LoopResource {
  func ready(_ events: Poller.Events) {
    if state == .connecting { return finishConnecting() }
    if events.contains(.failed) {
      // Bytes that came before the error are still there to read; reading then meets the error, unless it is gone.
      read()
      guard state != .closed else { return }
      let code = -simp_take_socket_error(poller.fd)
      if code != 0 { return breakOff(IOError(code: code, operation: "use", subject: "\(remoteAddress)")) }
      return updateWatch()
    }
    if events.contains(.writable) { flush() }
    if events.contains(.readable) { read() }
  }

  func flushAtTurnEnd() {
    isDirty = false
    guard state != .closed else { return }
    flush()
    if let failure {
      read()
      if state != .closed { breakOff(failure) }
      return
    }
    if isDrained {
      isDrained = false
      onDrain?()
    }
    if state == .closing { continueClosing() }
  }
}
