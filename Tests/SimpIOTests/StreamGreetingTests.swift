import SimpCore
import Testing

@testable import SimpIO

/// Ten bytes make its greeting; all others are the application's.
private final class TenBytePipe: BytePipe {
  /// What it was shown of a greeting, by length.
  private(set) var looks: [Int] = []
  private(set) var isReady = false
  let isEnded = false

  func start(wire: inout [UInt8]) {}
  func greetingShortage(_ wire: Span<UInt8>) -> Int {
    looks.append(wire.count)
    return max(0, 10 - wire.count)
  }
  func receive(_ wire: Span<UInt8>, plain: inout [UInt8], reply: inout [UInt8]) {
    isReady = true
    plain.append(copying: wire)
  }
  func send(_ plain: Span<UInt8>, wire: inout [UInt8]) { wire.append(copying: plain) }
  func finish(wire: inout [UInt8]) {}
}

@Suite struct StreamGreetingTests {
  /// Who sends a greeting byte by byte wakes the loop when it is whole, and not for each byte.
  @Test func bytesOfAGreetingWakeNobodyBeforeItIsWhole() throws {
    let pipe = TenBytePipe()
    var server: SimpIO.Stream?
    var client: SimpIO.Stream?
    var asked = 0
    var arrived: [UInt8] = []
    try withLoop { loop in
      let listener = try StreamListener(loop: loop, address: .loopback(port: 0), makePipe: { pipe }) { stream, _ in
        server = stream
        stream.mayGreet = {
          asked += 1
          return true
        }
        stream.onBytes = { bytes in
          arrived.append(copying: bytes)
          if arrived.count == 12 { loop.stop() }
        }
      }
      Stream.connect(loop: loop, to: listener.localAddress, timeout: .seconds(10)) { result in
        client = try? result.get()
      }
      var sent: UInt8 = 0
      loop.addTurnEnd {
        // One byte a turn, and it is there before the next: both ends are in this process.
        guard let client, server != nil, sent < 12 else { return }
        sent += 1
        client.write([sent])
        loop.execute {}
      }
    }
    #expect(arrived == Array(1...12))
    #expect(asked == 1)
    #expect(pipe.looks == [0, 10], "shown \(pipe.looks)")
  }

  @Test func anEndBeforeTheGreetingIsWholeIsHeard() throws {
    let pipe = TenBytePipe()
    var error: IOError?
    try withLoop { loop in
      let listener = try StreamListener(loop: loop, address: .loopback(port: 0), makePipe: { pipe }) { stream, _ in
        stream.mayGreet = { true }
        stream.onBytes = { _ in }
        stream.onClose = {
          error = $0
          loop.stop()
        }
      }
      Stream.connect(loop: loop, to: listener.localAddress, timeout: .seconds(10)) { result in
        guard let client = try? result.get() else { return }
        client.write([1, 2, 3])
        client.closeAfterFlush(deadline: .seconds(10))
      }
    }
    #expect(error != nil && !pipe.isReady)
  }
}
