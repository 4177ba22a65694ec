import ProgramRig
import SimpCore
import SimpIO
import Testing

@testable import SimpBench

/// The relay between a server that echoes and a client, on a loop of their own.
struct RelayTests {
  /// Everything but `seen` and `ended` is touched on the loop only.
  private final class Rig: @unchecked Sendable {
    let loop: EventLoop
    let relayPort: UInt16
    var relay: Relay!
    private var echoSocket: DatagramSocket?
    private var echoListener: StreamListener?
    private var streams: [Stream] = []
    private var client: DatagramSocket?
    private var stream: Stream?
    /// What the server got and from which port; what came back to the client, by UDP and by TCP.
    let server = Locked<[(text: String, port: UInt16)]>([])
    let datagrams = Locked<[String]>([])
    let bytes = Locked<[UInt8]>([])
    let isConnected = Locked(false)
    let isEnded = Locked(false)

    init() async throws {
      loop = try EventLoop()
      relayPort = FreePort.tcp()
      loop.startThread(name: "relay")
      let ports = try await onLoop { rig throws(IOError) in try rig.openServer() }
      let here = PeerAddress.v4(127, 0, 0, 2, port: relayPort)
      relay = try await Relay.start(
        on: loop, tcp: (here, .v4(127, 0, 0, 1, port: ports.tcp)), udp: (here, .v4(127, 0, 0, 1, port: ports.udp)),
        seed: 1)
      try await onLoop { rig throws(IOError) in try rig.openClient() }
    }

    private func onLoop<Value: Sendable>(
      _ body: @escaping @Sendable (Rig) throws(IOError) -> Value
    ) async throws -> Value {
      let result: Result<Value, IOError> = await withCheckedContinuation { continuation in
        loop.execute {
          continuation.resume(returning: Result { () throws(IOError) in try body(self) })
        }
      }
      return try result.get()
    }

    private func openServer() throws(IOError) -> (tcp: UInt16, udp: UInt16) {
      let any = PeerAddress.v4(127, 0, 0, 1, port: 0)
      let socket = try DatagramSocket(loop: loop, bind: any)
      echoSocket = socket
      socket.onReceive { [unowned self, unowned socket] datagram, client in
        let text = Self.text(datagram)
        server.withLock { $0.append((text, client.port)) }
        socket.send(Array(text.utf8), to: client)
      }
      let listener = try StreamListener(loop: loop, address: any) { [unowned self] stream, _ in
        streams.append(stream)
        stream.onBytes = { [unowned stream] in stream.write($0) }
      }
      echoListener = listener
      return (listener.localAddress.port, socket.localAddress.port)
    }

    private func openClient() throws(IOError) {
      let socket = try DatagramSocket(loop: loop, bind: .v4(127, 0, 0, 1, port: 0))
      client = socket
      socket.onReceive { [unowned self] datagram, _ in
        let text = Self.text(datagram)
        datagrams.withLock { $0.append(text) }
      }
      stream = Stream.connect(loop: loop, to: .v4(127, 0, 0, 2, port: relayPort), timeout: .seconds(20)) {
        [unowned self] result in
        guard case .success(let stream) = result else { return }
        self.stream = stream
        stream.onBytes = { [unowned self] span in
          for index in span.indices {
            let byte = span[index]
            bytes.withLock { $0.append(byte) }
          }
        }
        stream.onClose = { [unowned self] _ in isEnded.withLock { $0 = true } }
        isConnected.withLock { $0 = true }
      }
    }

    private static func text(_ datagram: borrowing MutableSpan<UInt8>) -> String {
      String(decoding: datagram.indices.map { datagram[$0] }, as: UTF8.self)
    }

    func send(_ text: String) async throws {
      let to = PeerAddress.v4(127, 0, 0, 2, port: relayPort)
      try await onLoop { rig throws(IOError) in rig.client?.send(Array(text.utf8), to: to) }
    }

    func write(_ bytes: [UInt8]) async throws {
      try await onLoop { rig throws(IOError) in rig.stream?.write(bytes) }
    }

    func wait(_ what: String, _ condition: () -> Bool) async throws {
      let deadline = ContinuousClock.now + .seconds(20)
      while !condition() {
        try #require(ContinuousClock.now < deadline, "waited in vain for \(what)")
        try await Task.sleep(for: .milliseconds(5))
      }
    }

    func close() async {
      await relay.close()
      loop.close()
    }
  }

  @Test func datagramsAndBytesPassBothWays() async throws {
    let rig = try await Rig()
    try await rig.send("one")
    try await rig.wait("the datagram") { rig.datagrams.withLock { $0 } == ["one"] }
    // More than waits on the way at a time.
    let long = (0..<(5 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
    try await rig.wait("the connection") { rig.isConnected.withLock { $0 } }
    try await rig.write(long)
    try await rig.wait("the bytes") { rig.bytes.withLock(\.count) >= long.count }
    #expect(rig.bytes.withLock { $0 } == long)
    await rig.close()
  }

  @Test func aBlackholeSwallowsDatagramsUntilItIsOver() async throws {
    let rig = try await Rig()
    await rig.relay.setBlackhole(true)
    try await rig.send("swallowed")
    // The socket is read in order: what is asked of the relay behind it finds it gone.
    try await rig.send("swallowed too")
    try await rig.wait("nothing") { rig.isConnected.withLock { $0 } }
    try await rig.write([1])
    try await rig.wait("the byte, for TCP still works") { rig.bytes.withLock { $0 } == [1] }
    await rig.relay.setBlackhole(false)
    try await rig.send("through")
    try await rig.wait("the datagram") { rig.datagrams.withLock { $0 } == ["through"] }
    #expect(rig.server.withLock { $0.map(\.text) } == ["through"])
    await rig.close()
  }

  @Test func reboundTheServerSeesAnotherAddressAndAnswersIt() async throws {
    let rig = try await Rig()
    try await rig.send("before")
    try await rig.wait("the datagram") { rig.datagrams.withLock(\.count) == 1 }
    #expect(await rig.relay.rebind(share: 1) == 1)
    try await rig.send("after")
    try await rig.wait("the other") { rig.datagrams.withLock { $0 } == ["before", "after"] }
    let ports = rig.server.withLock { $0.map(\.port) }
    #expect(ports.count == 2 && ports[0] != ports[1])
    await rig.close()
  }

  @Test func whatIsCutEnds() async throws {
    let rig = try await Rig()
    try await rig.wait("the connection") { rig.isConnected.withLock { $0 } }
    try await rig.write([1])
    try await rig.wait("the byte") { rig.bytes.withLock { $0 } == [1] }
    #expect(await rig.relay.cut(share: 1) == 1)
    try await rig.wait("the end") { rig.isEnded.withLock { $0 } }
    #expect(await rig.relay.cut(share: 1) == 0)
    await rig.close()
  }

  @Test func impairedSomeAreLostSomeDoubledAndTheirOrderChanges() async throws {
    let rig = try await Rig()
    await rig.relay.setImpairment(
      .init(loss: 0.2, duplication: 0.2, delay: .milliseconds(1), jitter: .milliseconds(30)))
    let sent = (0..<400).map { "\($0)" }
    for text in sent { try await rig.send(text) }
    // What is held up comes within the longest delay; how long the machine takes for it is not ours to say.
    try await rig.wait("most") { Set(rig.datagrams.withLock { $0 }).count > 180 }
    let got = rig.server.withLock { $0.map(\.text) }
    #expect(Set(got).isSubset(of: sent))
    #expect(Set(got).count < sent.count, "none was lost")
    #expect(Set(got).count < got.count, "none was doubled")
    #expect(got.map { Int($0) ?? 0 } != got.map { Int($0) ?? 0 }.sorted(), "the order stayed")
    await rig.relay.setImpairment(nil)
    await rig.close()
  }
}
