internal import CSimpLinux
internal import Glibc
public import SimpCore

/// A UDP socket that receives and sends in batches of 64. On its loop's thread only.
///
/// Handlers are called from the loop, and not after `close()`.
@safe
public final class DatagramSocket {
  /// What passed since the socket was made, in datagrams.
  public struct Counters: Sendable, Equatable {
    public var received: UInt64 = 0
    public var sent: UInt64 = 0
    /// Given to `send` and dropped: the kernel took none for so long that the queue was full.
    public var dropped: UInt64 = 0
    /// Refused by the kernel (no route, too long, a firewall), and reports of the network about earlier ones.
    public var errors: UInt64 = 0
    /// Received but longer than any of ours, and dropped.
    public var oversized: UInt64 = 0
  }

  /// BOUND: batches in one turn (256 datagrams, empty ones too), so that timers and streams are heard in a flood.
  private static let batchesPerTurn = 4

  /// Addresses that `refuse` takes.
  public static let maximumRefused = Int(SIMP_REFUSED)

  /// Where it is bound, with the port that the kernel chose if 0 was asked for.
  public let localAddress: PeerAddress
  /// Bytes the kernel buffers in each direction; it may grant less than was asked.
  public let receiveBufferBytes: Int
  public let sendBufferBytes: Int
  public var counters: Counters {
    var all = arrivals
    all.sent = queue.sent
    all.dropped = queue.dropped
    all.errors += queue.errors
    return all
  }

  /// Called after each batch that was received.
  public var onBatchEnd: (() -> Void)?

  private let loop: EventLoop
  private let poller: Poller
  private var handler: ((inout MutableSpan<UInt8>, PeerAddress) -> Void)?
  private var isClosed = false

  /// What the kernel lets in, as far as that was said.
  private struct Admitted {
    var sizes = 0...65_535
    var mask: UInt16 = 0
    var value: UInt16 = 0
  }

  private var admitted = Admitted()
  private var arrivals = Counters()
  private var queue = DatagramQueue()
  private var isBlocked = false
  private var isDirty = false

  /// - Parameters:
  ///   - bind: an address of this machine, or `.any`; port 0 lets the kernel choose.
  ///   - reusePort: shares the port with sockets that say so too; see `steer`.
  ///   - bufferBytes: asked of the kernel for each direction.
  /// - Throws: `IOError`, address in use and missing permission among them.
  public init(
    loop: EventLoop, bind: PeerAddress, reusePort: Bool = false, bufferBytes: Int = 4 << 20
  ) throws(IOError) {
    self.loop = loop
    var buffers: (receive: Int32, send: Int32) = (0, 0)
    let fd = try DatagramSocket.open(bind, reusePort: reusePort, bufferBytes: bufferBytes, buffers: &buffers)
    (receiveBufferBytes, sendBufferBytes) = (Int(buffers.receive), Int(buffers.send))
    localAddress = .local(of: fd)
    poller = try Poller(loop: loop, fd: fd)
    poller.owner = self
    loop.register(self)
    updateWatch()
  }

  private static func open(
    _ address: PeerAddress, reusePort: Bool, bufferBytes: Int, buffers: inout (receive: Int32, send: Int32)
  ) throws(IOError) -> Int32 {
    var kernel = address.kernel
    // SAFETY: all pointers are used during the call only.
    let fd = unsafe simp_udp_open(
      &kernel, reusePort ? 1 : 0, Int32(clamping: bufferBytes), &buffers.receive, &buffers.send)
    guard fd >= 0 else { throw IOError(code: -fd, operation: "listen on UDP", subject: "\(address)") }
    return fd
  }

  /// Binds for a moment without sharing the port. Sockets that share one would not notice that another program
  /// already does.
  ///
  /// - Throws: `IOError` when the port cannot be had.
  public static func checkFree(_ address: PeerAddress) throws(IOError) {
    var buffers: (receive: Int32, send: Int32) = (0, 0)
    _ = simp_close(try open(address, reusePort: false, bufferBytes: 4096, buffers: &buffers))
  }

  // MARK: Receiving

  /// Calls `handler` once for each datagram. The bytes may be changed in place (decrypted); they are good until the
  /// handler returns.
  public func onReceive(_ handler: @escaping (inout MutableSpan<UInt8>, PeerAddress) -> Void) {
    self.handler = handler
    updateWatch()
  }

  private func receive() {
    for _ in 0..<DatagramSocket.batchesPerTurn {
      guard let handler else { return }
      // SAFETY: the batch lives as long as the loop, and its entries until the next receive on this loop.
      var received: UnsafeMutablePointer<simp_datagram>?
      let count = unsafe simp_udp_receive(poller.fd, loop.scratch.datagrams, &received)
      guard count > 0 else {
        // A report about something sent earlier. It says nothing about the next datagram.
        if count != -EAGAIN { arrivals.errors += 1 }
        if count < 0 { return }
        continue
      }
      for index in 0..<Int(count) {
        let datagram = unsafe received![index]
        if unsafe datagram.truncated != 0 {
          arrivals.oversized += 1
          continue
        }
        arrivals.received += 1
        var span = unsafe UnsafeMutableBufferPointer(start: datagram.bytes, count: Int(datagram.count)).mutableSpan
        unsafe handler(&span, PeerAddress(datagram.from))
        if isClosed { return }
      }
      onBatchEnd?()
      if count < SIMP_BATCH { return }
    }
  }

  // MARK: Sending

  /// Queues a copy of `datagram`; a full batch leaves at once, the rest at the end of the turn.
  public func send(_ datagram: Span<UInt8>, to address: PeerAddress) {
    assert(loop.isCurrent)
    guard !isClosed else { return }
    queue.append(datagram, to: address)
    if isBlocked { return }
    if queue.count >= SIMP_BATCH {
      flush()
    } else if !isDirty {
      isDirty = true
      loop.markDirty(self)
    }
  }

  /// Queues a copy of `datagram`, as `send(_: Span<UInt8>, to:)` does.
  public func send(_ datagram: [UInt8], to address: PeerAddress) { send(datagram.span, to: address) }

  /// Datagrams that wait for the kernel.
  public var pendingDatagrams: Int { queue.count }

  /// Gives everything to the kernel now. What it does not take waits until it does, to a limit; then the oldest go.
  public func flush() {
    assert(loop.isCurrent)
    guard !isClosed else { return }
    let wasBlocked = isBlocked
    isBlocked = !queue.send(to: poller.fd, family: localAddress.family)
    if isBlocked != wasBlocked { updateWatch() }
  }

  /// Lets the payload byte at `offset`, modulo `sockets`, choose the socket among those that share this port, in the
  /// order they were bound. A datagram too short for it goes to the first. Called on any one of them, once.
  ///
  /// - Throws: `IOError` when the socket was made without `reusePort`.
  public func steer(byAtOffset offset: Int, sockets: Int) throws(IOError) {
    let status = simp_udp_steer(poller.fd, UInt32(offset), UInt32(sockets))
    guard status == 0 else {
      throw IOError(code: -status, operation: "steer the datagrams of", subject: "\(localAddress)")
    }
  }

  /// Has the kernel drop every datagram whose length is outside `sizes`, or whose first two bytes, masked, are not
  /// `value`: a flood of them then takes no room in the socket's buffer, and costs this program nothing.
  ///
  /// - Throws: `IOError` when the kernel does not take the filter.
  public func admitOnly(sizes: ClosedRange<Int>, mask: UInt16, value: UInt16) throws(IOError) {
    admitted = Admitted(sizes: sizes, mask: mask, value: value)
    try refuse(v4: [], v6: [])
  }

  /// Has the kernel drop, beside what `admitOnly` said, all that comes from these addresses, and nothing from those named
  /// earlier.
  ///
  /// - Parameters:
  ///   - v4: IPv4 addresses.
  ///   - v6: first halves of IPv6 addresses; `maximumRefused` at most with those.
  /// - Throws: `IOError` when the kernel does not take the filter; then the one before stays.
  public func refuse(v4: [UInt32], v6: [UInt64]) throws(IOError) {
    // SAFETY: both lists are read during the call only.
    let status = unsafe simp_udp_admit(
      poller.fd, UInt32(admitted.sizes.lowerBound), UInt32(admitted.sizes.upperBound), UInt32(admitted.mask),
      UInt32(admitted.value), v4, UInt32(v4.count), v6, UInt32(v6.count))
    guard status == 0 else {
      throw IOError(code: -status, operation: "filter the datagrams of", subject: "\(localAddress)")
    }
  }

  /// Closes at once; what is pending is dropped. May be called twice.
  public func close() {
    guard !isClosed else { return }
    isClosed = true
    poller.close()
    loop.unregister(self)
    handler = nil
    onBatchEnd = nil
    queue.clear()
  }

  private func updateWatch() {
    var events: Poller.Events = []
    if handler != nil { events.insert(.readable) }
    if isBlocked { events.insert(.writable) }
    poller.watch(events)
  }
}

extension DatagramSocket: PollOwner, TurnFlushed, LoopResource {
  func ready(_ events: Poller.Events) {
    if events.contains(.failed) {
      if simp_take_socket_error(poller.fd) != 0 { arrivals.errors += 1 }
      updateWatch()
      return
    }
    if events.contains(.writable) { flush() }
    if events.contains(.readable) { receive() }
  }

  func flushAtTurnEnd() {
    isDirty = false
    flush()
  }
}
