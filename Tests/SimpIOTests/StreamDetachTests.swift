import SimpCore
import Testing

@testable import SimpIO

/// A connection that was accepted on one loop goes on on another.
@Suite struct StreamDetachTests {
  /// TLS, with bytes behind the client's last of the handshake: they wait for who takes the connection up.
  @Test func aConnectionGoesOnOnAnotherLoop() throws {
    let identity = try TLSIdentity()
    let trust = try identity.trusting()
    let second = try EventLoop()
    let done = Locked(false)
    var gone = 0
    var answer: [UInt8] = []
    try withLoop { first in
      let listener = try StreamListener(
        loop: first, address: .loopback(port: 0), makePipe: { identity.context.makePipe() }
      ) { stream, peer in
        stream.onGone = { gone += 1 }
        stream.onOpen = {
          #expect(stream.isOpen)
          let detached = stream.detach()
          #expect(stream.isClosed && detached?.remoteAddress == peer)
          guard let detached else { return }
          second.execute { Self.echo(detached, on: second, done: done) }
        }
      }
      SimpIO.Stream.connect(
        loop: first, to: listener.localAddress, pipe: try trust.makePipe(to: "localhost", port: 1),
        timeout: .seconds(10)
      ) { result in
        guard let client = try? result.get() else { return first.stop() }
        client.onBytes = { bytes in
          answer.append(copying: bytes)
          if answer.count == 6 {
            client.closeAfterFlush(deadline: .seconds(20)) { first.stop() }
          }
        }
        client.write([1, 2, 3, 4, 5, 6])
      }
      second.startThread(name: "test-second")
    }
    second.close()
    #expect(answer == [1, 2, 3, 4, 5, 6])
    #expect(done.withLock { $0 })
    #expect(gone == 1)
  }

  private static func echo(_ detached: DetachedStream, on loop: EventLoop, done: Locked<Bool>) {
    guard let stream = try? Stream(loop: loop, adopting: detached) else { return }
    stream.onBytes = { [unowned stream] bytes in stream.write(bytes) }
    stream.onClose = { error in
      // The client's end is heard here.
      done.withLock { $0 = error == nil }
    }
  }
}
