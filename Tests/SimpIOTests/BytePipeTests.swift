import SimpCore
import SimpIO
import Testing

/// Swaps two bytes with the peer first, then flips the bits of everything: small, and with the needs of TLS.
private final class FlipPipe: BytePipe {
  let greeting: [UInt8]
  private var greeted = 0
  var finished = 0

  init(greeting: [UInt8] = [0x55, 0x56]) { self.greeting = greeting }

  var isReady: Bool { greeted == 2 }
  private(set) var isEnded = false

  func start(wire: inout [UInt8]) { wire += greeting }

  func receive(_ wire: Span<UInt8>, plain: inout [UInt8], reply: inout [UInt8]) throws(PipeError) {
    for index in wire.indices {
      if !isReady {
        guard wire[index] == 0x55 + UInt8(greeted) else { throw PipeError("that was no greeting") }
        greeted += 1
      } else if wire[index] == 0xEE {
        isEnded = true
      } else {
        plain.append(~wire[index])
      }
    }
  }

  func send(_ plain: Span<UInt8>, wire: inout [UInt8]) {
    precondition(isReady)
    for index in plain.indices { wire.append(~plain[index]) }
  }

  func finish(wire: inout [UInt8]) {
    finished += 1
    wire.append(0xEE)
  }
}

@Suite struct BytePipeTests {
  @Test func bytesPassThePipeAfterItsGreeting() throws {
    var heard: [UInt8] = []
    var raw: [UInt8] = []
    let pipes = (server: FlipPipe(), client: FlipPipe())
    try withLoop { loop in
      let listener = try StreamListener(loop: loop, address: .loopback(port: 0), makePipe: { pipes.server }) {
        stream, _ in
        // Before any greeting: it waits inside the stream.
        stream.write([1, 2, 3])
        stream.onBytes = { raw += Array(copying: $0) }
        stream.onClose = { error in
          #expect(error == nil)
          #expect(pipes.server.isEnded)
        }
      }
      Stream.connect(loop: loop, to: listener.localAddress, pipe: pipes.client, timeout: .seconds(20)) { result in
        guard case .success(let stream) = result else { return loop.stop() }
        #expect(pipes.client.isReady)
        stream.onBytes = { bytes in
          heard += Array(copying: bytes)
          guard heard.count == 3 else { return }
          stream.write([4, 5])
          stream.closeAfterFlush(deadline: .seconds(20)) { loop.stop() }
        }
      }
    }
    #expect(heard == [1, 2, 3])
    #expect(raw == [4, 5])
    #expect(pipes.client.finished == 1)
  }

  @Test func connectingEndsWithTheWholeGreeting() throws {
    let pipe = FlipPipe()
    var steps: [String] = []
    try withLoop { loop in
      let listener = try StreamListener(loop: loop, address: .loopback(port: 0)) { stream, _ in
        stream.onBytes = { _ in }
        stream.write([0x55])
        let rest = loop.makeTimer { [unowned stream] in
          steps.append("rest")
          stream.write([0x56])
        }
        rest.arm(at: loop.now + .milliseconds(10))
      }
      Stream.connect(loop: loop, to: listener.localAddress, pipe: pipe, timeout: .seconds(20)) { result in
        steps.append("connected")
        #expect(pipe.isReady)
        loop.stop()
      }
    }
    #expect(steps == ["rest", "connected"])
  }

  @Test func aPipeThatNeverGetsReadyTimesOut() throws {
    var error: IOError?
    try withLoop { loop in
      let silent = try StreamListener(loop: loop, address: .loopback(port: 0)) { stream, _ in stream.onBytes = { _ in }
      }
      Stream.connect(loop: loop, to: silent.localAddress, pipe: FlipPipe(), timeout: .milliseconds(50)) { result in
        if case .failure(let failure) = result { error = failure }
        loop.stop()
      }
    }
    #expect(error?.isTimedOut == true)
  }

  @Test func aPeerThatEndsDuringTheGreetingIsAnError() throws {
    var error: IOError?
    try withLoop { loop in
      let rude = try StreamListener(loop: loop, address: .loopback(port: 0)) { stream, _ in
        stream.onBytes = { [unowned stream] _ in stream.closeAfterFlush(deadline: .seconds(20)) }
      }
      Stream.connect(loop: loop, to: rude.localAddress, pipe: FlipPipe(), timeout: .seconds(20)) { result in
        if case .failure(let failure) = result { error = failure }
        loop.stop()
      }
    }
    #expect(error?.detail == "the peer closed the connection before it was set up")
  }

  @Test func whatThePipeRefusesEndsTheStreamWithItsWords() throws {
    var errors: [String] = []
    try withLoop { loop in
      let makePipe = { FlipPipe(greeting: [0x66]) }
      let listener = try StreamListener(loop: loop, address: .loopback(port: 0), makePipe: makePipe) { stream, _ in
        stream.onBytes = { _ in }
        stream.onClose = { _ in
          errors.append("closed")
          if errors.count == 2 { loop.stop() }
        }
      }
      Stream.connect(loop: loop, to: listener.localAddress, pipe: FlipPipe(), timeout: .seconds(20)) { result in
        if case .failure(let failure) = result { errors.append(failure.detail ?? "") }
        if errors.count == 2 { loop.stop() }
      }
    }
    #expect(errors.sorted() == ["closed", "that was no greeting"])
  }

  @Test func thePlainPipeChangesNothing() {
    let pipe = PlainPipe()
    var (plain, reply, wire): ([UInt8], [UInt8], [UInt8]) = ([], [], [])
    pipe.start(wire: &wire)
    pipe.receive([1, 2].span, plain: &plain, reply: &reply)
    pipe.send([3].span, wire: &wire)
    pipe.finish(wire: &wire)
    #expect(pipe.isReady && !pipe.isEnded)
    #expect(plain == [1, 2] && reply == [] && wire == [3])
  }
}
