internal import CSimpLinux
internal import Glibc
public import SimpCore

extension Stream {
  /// Connects, and lets the pipe shake hands. `completion` is called once, from the loop: with the stream when bytes
  /// may pass, or with why not.
  ///
  /// - Parameter timeout: for everything together; then the error is ETIMEDOUT.
  /// - Returns: the stream, whose `close()` ends the attempt without a call of `completion`.
  @discardableResult
  public static func connect(
    loop: EventLoop, to address: PeerAddress, pipe: any BytePipe = PlainPipe(), timeout: Interval,
    completion: @escaping (Result<Stream, IOError>) -> Void
  ) -> Stream? {
    loop.preconditionCurrent()
    // SAFETY: the address is read during the call only.
    var kernel = address.kernel
    let fd = unsafe simp_tcp_connect(&kernel)
    do throws(IOError) {
      guard fd >= 0 else { throw IOError(code: -fd, operation: "connect to", subject: "\(address)") }
      let stream = try Stream(loop: loop, fd: fd, remote: address, pipe: pipe, state: .connecting)
      stream.completion = completion
      let timer = loop.makeTimer { [unowned stream] in
        stream.breakOff(IOError(code: ETIMEDOUT, operation: "connect to", subject: "\(address)"))
      }
      timer.arm(at: loop.now + timeout)
      stream.timer = timer
      stream.startWatching()
      return stream
    } catch {
      // Never from inside the call: a caller that is not yet done setting up would be surprised.
      loop.later { completion(.failure(error)) }
      return nil
    }
  }

  func finishConnecting() {
    let code = -simp_take_socket_error(poller.fd)
    guard code == 0 else {
      return breakOff(IOError(code: code, operation: "connect to", subject: "\(remoteAddress)"))
    }
    localAddress = .local(of: poller.fd)
    begin()
  }
}
