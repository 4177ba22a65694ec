import SimpCore
import Testing

@testable import SimpIO

@Suite struct StreamEndingTests {
  /// Two connected streams of one loop: (accepted, connected).
  private func withPair(_ body: @escaping (EventLoop, Stream, Stream) -> Void) throws {
    try withLoop { loop in
      var accepted: Stream?
      let listener = try StreamListener(loop: loop, address: .loopback(port: 0)) { stream, _ in accepted = stream }
      Stream.connect(loop: loop, to: listener.localAddress, timeout: .seconds(20)) { result in
        guard case .success(let connected) = result else { return loop.stop() }
        // The listener may hear of the connection a turn later than the one who connects.
        var again: LoopTimer?
        again = loop.makeTimer {
          guard let accepted else { return again!.arm(at: loop.now) }
          again?.close()
          body(loop, accepted, connected)
        }
        again?.arm(at: loop.now)
      }
    }
  }

  @Test func lastWordsAreReadBeforeTheReset() throws {
    var heard: [UInt8] = []
    var end: IOError??
    try withPair { loop, server, client in
      server.write(Array("goodbye".utf8))
      server.flush()
      client.write([1, 2, 3])
      client.flush()
      // Unread bytes make the kernel answer with a reset.
      server.close()
      client.onBytes = { heard += Array(copying: $0) }
      client.onClose = { error in
        end = error
        loop.stop()
      }
      client.write([4, 5, 6])
    }
    #expect(heard == Array("goodbye".utf8))
    #expect(end??.code == 104 || end??.code == 32, "\(String(describing: end))")
  }

  @Test func writingToAClosedPeerIsAnErrorAndNoSignal() throws {
    var error: IOError?
    try withPair { loop, server, client in
      server.close()
      client.onClose = { failure in
        error = failure
        loop.stop()
      }
      // Not reading, so that the end comes to light by writing alone.
      func writeMore() {
        guard !client.isClosed else { return }
        client.write([UInt8](repeating: 1, count: 1000))
        let timer = loop.makeTimer { writeMore() }
        timer.arm(at: loop.now)
      }
      writeMore()
    }
    #expect(error?.operation == "send to" || error?.code == 104)
  }

  @Test func closingAfterTheFlushDeliversEverythingToASlowPeer() throws {
    let total = 8 << 20
    var received = 0
    var steps: [String] = []
    try withPair { loop, server, client in
      let resume = loop.makeTimer { client.resumeReading() }
      client.onBytes = { bytes in
        received += bytes.count
        client.pauseReading()
        resume.arm(at: loop.now + .microseconds(100))
      }
      client.onClose = { error in
        #expect(error == nil)
        steps.append("peer saw the end")
        resume.close()
      }
      server.onClose = { _ in Issue.record("no handler is called after closeAfterFlush") }
      server.onDrain = { Issue.record("no handler is called after closeAfterFlush") }
      server.write([UInt8](repeating: 7, count: total))
      server.closeAfterFlush(deadline: .seconds(15)) {
        steps.append("closed")
        loop.stop()
      }
      server.write([8])
    }
    #expect(received == total)
    #expect(steps == ["peer saw the end", "closed"])
  }

  @Test func closingAfterTheFlushGivesUpAtItsDeadline() throws {
    var waited = Interval.zero
    try withPair { loop, server, client in
      client.pauseReading()
      server.write([UInt8](repeating: 7, count: 16 << 20))
      let start = loop.now
      server.closeAfterFlush(deadline: .milliseconds(60)) {
        waited = loop.now - start
        #expect(server.isClosed)
        loop.stop()
      }
    }
    #expect(waited >= .milliseconds(60))
  }

  @Test func nothingIsCalledAfterClose() throws {
    try withPair { loop, server, client in
      client.onBytes = { _ in Issue.record("bytes after close") }
      client.onClose = { _ in Issue.record("an end after close") }
      client.onDrain = { Issue.record("a drain after close") }
      server.write([1])
      server.flush()
      client.write([1])
      client.close()
      client.close()
      client.write([2])
      client.flush()
      client.resumeReading()
      client.closeAfterFlush(deadline: .seconds(1)) { Issue.record("closed twice") }
      server.onBytes = { _ in }
      server.onClose = { _ in loop.stop() }
    }
  }

  @Test func aStreamMayBeClosedFromItsOwnHandlers() throws {
    var calls = 0
    try withPair { loop, server, client in
      client.onBytes = { _ in
        calls += 1
        client.close()
      }
      client.onClose = { _ in Issue.record("an end after close") }
      server.onBytes = { _ in }
      server.onClose = { _ in loop.stop() }
      server.write([UInt8](repeating: 0, count: 300_000))
    }
    #expect(calls == 1)
  }

  @Test func openStreamsGoWithTheLoop() throws {
    weak var held: Stream?
    let loop = try EventLoop()
    let listener = try StreamListener(loop: loop, address: .loopback(port: 0)) { _, _ in }
    Stream.connect(loop: loop, to: listener.localAddress, timeout: .seconds(20)) { result in
      if case .success(let stream) = result {
        stream.onBytes = { [stream] _ in _ = stream }
        held = stream
      }
      loop.stop()
    }
    loop.run()
    #expect(held != nil)
    loop.close()
    #expect(held == nil)
  }
}
