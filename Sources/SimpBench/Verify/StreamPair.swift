internal import SimpCore
internal import SimpIO

/// A client's TCP connection and the one that goes on from it to the server. On their loop only.
final class StreamPair {
  private let client: Stream
  private let server: PeerAddress
  private var upstream: Stream?
  private var early: [UInt8] = []
  private var isOver = false
  /// Called once when both are closed.
  var onEnd: (() -> Void)?

  /// BOUND: bytes that wait for one side before the other is not read any more.
  private static let pendingLimit = 1 << 20

  init(_ client: Stream, to server: PeerAddress) {
    self.client = client
    self.server = server
  }

  func start() {
    client.onClose = { [unowned self] _ in close() }
    upstream = Stream.connect(loop: client.loop, to: server, timeout: .seconds(5)) { [weak self] result in
      guard let self, !isOver else { return }
      guard case .success(let stream) = result else { return close() }
      upstream = stream
      stream.onClose = { [unowned self] _ in end(client) }
      client.onClose = { [unowned self] _ in end(stream) }
      join(client, to: stream)
      join(stream, to: client)
    }
  }

  private func join(_ source: Stream, to target: Stream) {
    source.onBytes = { [unowned source, unowned target] bytes in
      target.write(bytes)
      if target.pendingBytes > Self.pendingLimit { source.pauseReading() }
    }
    target.onDrain = { [unowned source] in source.resumeReading() }
  }

  /// The other side said goodbye: what it said before still goes out.
  private func end(_ rest: Stream) {
    guard !isOver else { return }
    isOver = true
    let other = rest === client ? upstream : client
    let finish = onEnd
    onEnd = nil
    other?.close()
    rest.closeAfterFlush(deadline: .seconds(2))
    finish?()
  }

  /// Breaks both at once.
  func close() {
    guard !isOver else { return }
    isOver = true
    client.close()
    upstream?.close()
    let finish = onEnd
    onEnd = nil
    finish?()
  }
}
