import SimpCore
import Testing

@testable import SimpIO

@Suite struct StreamTests {
  @Test(arguments: [PeerAddress.Family.v4, .v6])
  func bytesComeBackAndAddressesAgree(family: PeerAddress.Family) throws {
    var heard: [UInt8] = []
    var steps: [String] = []
    try withLoop { loop in
      var accepted: PeerAddress?
      let listener = try StreamListener(loop: loop, address: .loopback(family, port: 0)) { stream, peer in
        accepted = peer
        #expect(stream.localAddress.family == family)
        stream.onBytes = { [unowned stream] bytes in stream.write(bytes) }
        stream.onClose = { error in steps.append(error == nil ? "server saw the end" : "server saw an error") }
      }
      #expect(listener.localAddress.port != 0)
      Stream.connect(loop: loop, to: listener.localAddress, timeout: .seconds(20)) { result in
        guard case .success(let stream) = result else { return loop.stop() }
        #expect(stream.remoteAddress == listener.localAddress)
        #expect(stream.localAddress == accepted)
        stream.onBytes = { bytes in
          heard += Array(copying: bytes)
          guard heard.count == 10 else { return }
          stream.closeAfterFlush(deadline: .seconds(20)) {
            steps.append("client closed")
            loop.stop()
          }
        }
        stream.write(Array("hello".utf8))
        stream.write(Array("world".utf8))
        #expect(stream.pendingBytes == 10)
      }
    }
    #expect(heard == Array("helloworld".utf8))
    #expect(steps == ["server saw the end", "client closed"])
  }

  @Test func aSlowReaderHoldsTheWriterBackUntilItReadsOn() throws {
    let total = 6 << 20
    var received = 0
    var isBroken = false
    var drained: [Int] = []
    try withLoop { loop in
      let listener = try StreamListener(loop: loop, address: .loopback(port: 0)) { stream, _ in
        var isPaused = false
        let resume = loop.makeTimer { [unowned stream] in
          isPaused = false
          stream.resumeReading()
        }
        stream.onBytes = { [unowned stream] bytes in
          if Array(copying: bytes) != pattern(at: received, count: bytes.count) { isBroken = true }
          received += bytes.count
          if received == total { return loop.stop() }
          #expect(!isPaused, "bytes came while reading was paused")
          isPaused = true
          stream.pauseReading()
          // While nothing is read here, the writer's bytes pile up on its side.
          resume.arm(at: loop.now + .microseconds(200))
        }
      }
      Stream.connect(loop: loop, to: listener.localAddress, timeout: .seconds(20)) { result in
        guard case .success(let stream) = result else { return loop.stop() }
        stream.onDrain = { [unowned stream] in drained.append(stream.pendingBytes) }
        stream.write(pattern(at: 0, count: total))
        stream.flush()
        #expect(stream.pendingBytes > total / 4, "the kernel cannot have taken so much at once")
        #expect(stream.pendingBytes < total)
      }
    }
    #expect(received == total)
    #expect(!isBroken)
    #expect(drained == [0])
  }

  @Test func noDrainWithoutABlockage() throws {
    try withLoop { loop in
      let listener = try StreamListener(loop: loop, address: .loopback(port: 0)) { stream, _ in
        stream.onBytes = { _ in loop.stop() }
      }
      Stream.connect(loop: loop, to: listener.localAddress, timeout: .seconds(20)) { result in
        guard case .success(let stream) = result else { return loop.stop() }
        stream.onDrain = { Issue.record("nothing was blocked") }
        stream.write([1])
      }
    }
  }

  @Test func aPeerThatOnlyEndedItsOwnDirectionStillGetsAnswers() throws {
    var heard: [UInt8] = []
    try withLoop { loop in
      let listener = try StreamListener(loop: loop, address: .loopback(port: 0)) { stream, _ in
        var asked: [UInt8] = []
        stream.onBytes = { asked += Array(copying: $0) }
        stream.onClose = { [unowned stream] error in
          #expect(error == nil)
          stream.write(Array("re: ".utf8) + asked)
        }
      }
      Stream.connect(loop: loop, to: listener.localAddress, timeout: .seconds(20)) { result in
        guard case .success(let stream) = result else { return loop.stop() }
        stream.onBytes = { heard += Array(copying: $0) }
        stream.onClose = { error in
          #expect(error == nil)
          loop.stop()
        }
        stream.write(Array("question".utf8))
        stream.flush()
        stream.poller.endOutput()
      }
    }
    #expect(heard == Array("re: question".utf8))
  }

  @Test func refusedSaysSoAndWhatToDo() throws {
    var error: IOError?
    try withLoop { loop in
      let listener = try StreamListener(loop: loop, address: .loopback(port: 0)) { _, _ in }
      let address = listener.localAddress
      listener.close()
      try whenCopiesAreGone { try StreamListener.checkFree(address) }
      var isInside = true
      Stream.connect(loop: loop, to: address, timeout: .seconds(20)) { result in
        #expect(!isInside, "the completion came from inside the call")
        if case .failure(let failure) = result { error = failure }
        loop.stop()
      }
      isInside = false
    }
    #expect(error?.isConnectionRefused == true)
    #expect(error?.description.contains("is the server running") == true)
  }

  @Test func anImpossibleAddressFailsLater() throws {
    var error: IOError?
    try withLoop { loop in
      // A link-local address needs an interface; the kernel refuses this one at once.
      let address = PeerAddress(family: .v6, high: 0xFE80_0000_0000_0000, low: 1, port: 9)
      var isInside = true
      Stream.connect(loop: loop, to: address, timeout: .seconds(20)) { result in
        #expect(!isInside, "the completion came from inside the call")
        if case .failure(let failure) = result { error = failure }
        loop.stop()
      }
      isInside = false
    }
    #expect(error != nil)
  }

  @Test func connectingTimesOut() throws {
    var error: IOError?
    // A loop that never runs accepts nothing: once the backlog is full, the kernel answers no more.
    let deaf = try EventLoop()
    defer { deaf.close() }
    try withLoop { loop in
      let full = try StreamListener(loop: deaf, address: .loopback(port: 0), backlog: 1) { _, _ in }
      for _ in 0..<2 { Stream.connect(loop: deaf, to: full.localAddress, timeout: .seconds(60)) { _ in } }
      let start = loop.now
      let attempt = Stream.connect(loop: loop, to: full.localAddress, timeout: .milliseconds(80)) { result in
        #expect(loop.now - start >= .milliseconds(80))
        if case .failure(let failure) = result { error = failure }
        loop.stop()
      }
      #expect(attempt != nil)
    }
    #expect(error?.isTimedOut == true)
  }

  @Test func anAttemptThatIsClosedSaysNothing() throws {
    try withLoop { loop in
      let listener = try StreamListener(loop: loop, address: .loopback(port: 0)) { stream, _ in
        stream.onBytes = { _ in }
        stream.onClose = { _ in loop.stop() }
      }
      let attempt = Stream.connect(loop: loop, to: listener.localAddress, timeout: .seconds(20)) { _ in
        Issue.record("a closed attempt came to an end")
      }
      attempt?.close()
      attempt?.close()
      // The port is still there for others, and this connection ends the test.
      Stream.connect(loop: loop, to: listener.localAddress, timeout: .seconds(20)) { result in
        if case .success(let stream) = result { stream.closeAfterFlush(deadline: .seconds(20)) }
      }
    }
  }
}
