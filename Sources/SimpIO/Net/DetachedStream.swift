internal import CSimpLinux
public import SimpCore

/// An open connection between two loops: `Stream.detach()` takes it from the one, `Stream.init(loop:adopting:)` brings it
/// to the other. Who drops it closes the connection.
///
/// `@unchecked Sendable`: made by one thread, which then keeps nothing of it, and handed to another through something that
/// orders the two (`EventLoop.execute`); its contents are used once, by whoever takes them.
public final class DetachedStream: @unchecked Sendable {
  struct Contents {
    var fd: Int32
    var pipe: (any BytePipe)?
    /// For the application, and for the socket.
    var unread: [UInt8]
    var output: SendBuffer
    var onGone: (() -> Void)?
  }

  public let remoteAddress: PeerAddress
  private var contents: Contents?

  init(_ contents: Contents, remoteAddress: PeerAddress) {
    self.contents = contents
    self.remoteAddress = remoteAddress
  }

  func take() -> Contents {
    guard let contents else { preconditionFailure("a detached stream was taken up twice") }
    self.contents = nil
    return contents
  }

  deinit {
    guard var contents else { return }
    _ = simp_close(contents.fd)
    contents.unread.wipe()
    contents.onGone?()
  }
}

extension Stream {
  /// Takes an open connection off this loop, with what it has read and not sent yet. No handler is called any more;
  /// `onGone` goes with the connection, and is called on whatever thread closes it.
  ///
  /// - Returns: nil when there is nothing to go on with: the peer has ended, or the connection broke.
  public func detach() -> DetachedStream? {
    assert(loop.isCurrent)
    if state == .open { flush() }
    guard state == .open, failure == nil, !hasPeerEnded else { return nil }
    let onGone = onGone
    self.onGone = nil
    let contents = DetachedStream.Contents(
      fd: poller.release(), pipe: pipe, unread: unread, output: output, onGone: onGone)
    unread = []
    output = SendBuffer()
    leaveLoop()
    return DetachedStream(contents, remoteAddress: remoteAddress)
  }

  /// Goes on with a connection on `loop`.
  ///
  /// - Throws: `IOError` when the loop cannot watch it; it is closed then.
  public convenience init(loop: EventLoop, adopting detached: DetachedStream) throws(IOError) {
    var contents = detached.take()
    do throws(IOError) {
      try self.init(
        loop: loop, fd: contents.fd, remote: detached.remoteAddress, pipe: contents.pipe ?? PlainPipe(), state: .open)
    } catch {
      contents.unread.wipe()
      contents.onGone?()
      throw error
    }
    onGone = contents.onGone
    unread = contents.unread
    output = contents.output
    if output.count > 0 { markDirty() }
  }
}
