internal import CSimpLinux
internal import Glibc
public import SimpCore

/// A TCP port that takes connections. On its loop's thread only.
public final class StreamListener {
  /// BOUND: connections taken in one turn, so that a flood of them does not keep the others waiting. The rest waits in the
  /// kernel's backlog, a turn at a time.
  static let acceptsPerTurn = 8
  /// BOUND: the share of the loop's time that taking connections gets in the long run is one in so many: a flood of them
  /// leaves the processor to those inside.
  static let shareOfTime: Int64 = 8
  /// What may be spent ahead of that share: nobody rests for a few connections.
  static let allowance = Interval.milliseconds(2)
  /// How long the port rests at most, and when descriptors have run out; connections wait in the kernel's backlog
  /// meanwhile.
  static let longestRest = Interval.milliseconds(100)

  /// Where it listens, with the port that the kernel chose if 0 was asked for.
  public let localAddress: PeerAddress

  /// How often a connection could not be taken, for want of descriptors or memory.
  public private(set) var failedAccepts: UInt64 = 0

  private let loop: EventLoop
  private let poller: Poller
  private let makePipe: () -> any BytePipe
  private var onAccept: ((Stream, PeerAddress) -> Void)?
  private var timer: LoopTimer?
  /// When the time spent so far is no more than its share.
  private var settled = Instant(nanoseconds: 0)

  /// Listens at once; connections come when the loop runs.
  ///
  /// - Parameters:
  ///   - reusePort: shares the port with other listeners that say so too; the kernel spreads connections over them.
  ///   - backlog: connections that may wait for the loop; the kernel caps it at net.core.somaxconn.
  ///   - makePipe: the pipe of each connection.
  ///   - onAccept: is given each connection and its peer's address; sets the handlers, or closes it.
  /// - Throws: `IOError`, address in use and missing permission among them.
  public init(
    loop: EventLoop, address: PeerAddress, reusePort: Bool = false, backlog: Int32 = 1024,
    makePipe: @escaping () -> any BytePipe = { PlainPipe() }, onAccept: @escaping (Stream, PeerAddress) -> Void
  ) throws(IOError) {
    self.loop = loop
    self.makePipe = makePipe
    self.onAccept = onAccept
    let fd = try StreamListener.listen(address, reusePort: reusePort, backlog: backlog)
    localAddress = .local(of: fd)
    poller = try Poller(loop: loop, fd: fd)
    poller.owner = self
    poller.watch(.readable)
    loop.register(self)
  }

  private static func listen(_ address: PeerAddress, reusePort: Bool, backlog: Int32) throws(IOError) -> Int32 {
    var kernel = address.kernel
    // SAFETY: the address is read during the call only.
    let fd = unsafe simp_tcp_listen(&kernel, reusePort ? 1 : 0, backlog)
    guard fd >= 0 else { throw IOError(code: -fd, operation: "listen on TCP", subject: "\(address)") }
    return fd
  }

  /// Listens for a moment without sharing the port. Listeners that share one would not notice that another program
  /// already does.
  ///
  /// - Throws: `IOError` when the port cannot be had.
  public static func checkFree(_ address: PeerAddress) throws(IOError) {
    simp_tcp_close_listener(try listen(address, reusePort: false, backlog: 1))
  }

  /// Takes no more connections; those taken live on. May be called twice.
  public func close() {
    guard onAccept != nil else { return }
    onAccept = nil
    timer?.close()
    simp_tcp_close_listener(poller.release())
    loop.unregister(self)
  }

  private func rest(until end: Instant) {
    guard onAccept != nil else { return }
    poller.watch([])
    if timer == nil { timer = loop.makeTimer { [unowned self] in poller.watch(.readable) } }
    timer?.arm(at: end)
  }

  /// Connections were taken since `start`.
  private func account(since start: Instant) {
    let now = loop.now
    settled = max(settled, start) + (now - start) * Self.shareOfTime
    if settled - now > Self.allowance { rest(until: min(settled, now + Self.longestRest)) }
  }
}

extension StreamListener: PollOwner, LoopResource {
  func ready(_ events: Poller.Events) {
    let start = loop.now
    takeConnections()
    if events.contains(.failed), onAccept != nil { poller.watch(.readable) }
    account(since: start)
  }

  private func takeConnections() {
    for _ in 0..<StreamListener.acceptsPerTurn {
      guard let onAccept else { return }
      var kernel = simp_address()
      // SAFETY: `kernel` outlives the call.
      let fd = unsafe simp_tcp_accept(poller.fd, &kernel)
      switch fd {
      case 0...:
        let peer = PeerAddress(kernel)
        do throws(IOError) {
          let stream = try Stream(loop: loop, fd: fd, remote: peer, pipe: makePipe(), state: .greeting)
          onAccept(stream, peer)
          if !stream.isClosed { stream.begin() }
        } catch {
          failedAccepts += 1
        }
      case -EAGAIN: return
      // The peer gave up while it waited, or its network did: the next one may be fine.
      case -ECONNABORTED, -EINTR, -EPROTO, -ENETDOWN, -ENOPROTOOPT, -EHOSTDOWN, -ENONET, -EHOSTUNREACH, -EOPNOTSUPP,
        -ENETUNREACH:
        continue
      default:
        failedAccepts += 1
        return rest(until: loop.now + Self.longestRest)
      }
    }
  }
}
