internal import SimpCore
internal import SimpIO

/// A UDP socket behind a network that may be made bad on purpose. On its loop's thread only.
final class ImpairedSocket {
  private struct Held {
    var release: Instant
    var bytes: [UInt8]
    var address: PeerAddress
  }

  /// One direction.
  private struct Direction {
    var random: SplitMix
    // BOUND: 65536 datagrams; what comes beyond is dropped like by any router.
    var held: [Held] = []
    var dropped: UInt64 = 0

    mutating func drops(_ impairment: SIMPImpairment) -> Bool {
      guard impairment.loss > 0, random.fraction() < impairment.loss else { return false }
      dropped += 1
      return true
    }

    mutating func hold(_ bytes: [UInt8], _ address: PeerAddress, until release: Instant) {
      guard held.count < 65536 else {
        dropped += 1
        return
      }
      held.append(Held(release: max(release, held.last?.release ?? release), bytes: bytes, address: address))
    }

    mutating func takeDue(_ now: Instant) -> [Held] {
      let due = held.prefix { $0.release <= now }
      held.removeFirst(due.count)
      return Array(due)
    }
  }

  private let loop: EventLoop
  private let socket: DatagramSocket
  private let receive: (inout MutableSpan<UInt8>) -> Void
  private var timer: LoopTimer?
  private var outgoing: Direction
  private var incoming: Direction
  /// May change at any time.
  var impairment: SIMPImpairment? {
    didSet { if impairment?.seed != oldValue?.seed { reseed() } }
  }

  /// - Parameter receive: gets each datagram, as `DatagramSocket.onReceive` does. Who sent it is told by its tag.
  init(
    loop: EventLoop, family: PeerAddress.Family, impairment: SIMPImpairment?,
    receive: @escaping (inout MutableSpan<UInt8>) -> Void
  ) throws(IOError) {
    self.loop = loop
    self.impairment = impairment
    self.receive = receive
    outgoing = Direction(random: SplitMix(state: impairment?.seed ?? 0))
    incoming = Direction(random: SplitMix(state: ~(impairment?.seed ?? 0)))
    socket = try DatagramSocket(loop: loop, bind: .any(family, port: 0), bufferBytes: 1 << 20)
    socket.onReceive { [unowned self] datagram, address in arrived(&datagram, from: address) }
  }

  /// Datagrams lost on purpose, both ways.
  var dropped: UInt64 { outgoing.dropped + incoming.dropped }

  func send(_ datagram: Span<UInt8>, to address: PeerAddress) {
    guard let impairment else { return socket.send(datagram, to: address) }
    if outgoing.drops(impairment) { return }
    if impairment.delay <= .zero, outgoing.held.isEmpty { return socket.send(datagram, to: address) }
    outgoing.hold([UInt8](copying: datagram), address, until: loop.now + Interval(impairment.delay))
    armTimer()
  }

  private func arrived(_ datagram: inout MutableSpan<UInt8>, from address: PeerAddress) {
    guard let impairment else { return receive(&datagram) }
    if incoming.drops(impairment) { return }
    if impairment.delay <= .zero, incoming.held.isEmpty { return receive(&datagram) }
    incoming.hold([UInt8](copying: datagram.span), address, until: loop.now + Interval(impairment.delay))
    armTimer()
  }

  private func release() {
    let now = loop.now
    for held in outgoing.takeDue(now) { socket.send(held.bytes.span, to: held.address) }
    for held in incoming.takeDue(now) {
      var bytes = held.bytes
      var span = bytes.mutableSpan
      receive(&span)
    }
    armTimer()
  }

  private func armTimer() {
    guard let next = [outgoing.held.first?.release, incoming.held.first?.release].compactMap({ $0 }).min() else {
      return
    }
    if timer == nil { timer = loop.makeTimer { [unowned self] in release() } }
    timer?.arm(at: next)
  }

  private func reseed() {
    outgoing.random = SplitMix(state: impairment?.seed ?? 0)
    incoming.random = SplitMix(state: ~(impairment?.seed ?? 0))
  }

  func close() {
    socket.close()
    timer?.close()
    outgoing.held = []
    incoming.held = []
  }
}

extension [UInt8] {
  init(copying span: Span<UInt8>) {
    self.init(capacity: span.count) { output in
      for index in 0..<span.count { output.append(span[index]) }
    }
  }
}
