import SimpCore
import SimpIO
import Testing

/// A server that does what a test tells it, on a thread of its own: it takes logins or refuses them, ends sessions, cuts
/// connections, and delivers messages that nobody sent.
///
/// `@unchecked Sendable`: the test's threads touch `logins` (a lock) and call `execute`; the rest is the loop's.
final class SDKScriptedServer: @unchecked Sendable {
  enum Answer: Sendable {
    case accept
    case refuse(Refusal)
    /// No answer at all.
    case silence
    /// The connection is closed without an answer.
    case cut
  }

  let port: UInt16
  /// When each login came, and with which token.
  let logins = Locked<[(at: Instant, token: String)]>([])
  private let script: @Sendable (Int) -> Answer
  private let loop: EventLoop
  private var listener: StreamListener!
  private var clients: [UInt64: (session: ServerSession, stream: SimpIO.Stream)] = [:]
  /// What clients said became of their messages.
  let reported = Locked<[Outcome]>([])

  /// - Parameter script: what to do with the first, second, third login (counted from 0).
  init(listen: PeerAddress = .loopback(port: 0), script: @escaping @Sendable (Int) -> Answer) throws {
    self.script = script
    loop = try EventLoop()
    listener = nil
    var port: UInt16 = 0
    let made = try StreamListener(loop: loop, address: listen) { [loop] stream, _ in
      // Set below, before the loop runs.
      SDKScriptedServer.accepting.withLock { $0[ObjectIdentifier(loop)] }?.value?.accept(stream)
    }
    port = made.localAddress.port
    self.port = port
    listener = made
    SDKScriptedServer.accepting.withLock { $0[ObjectIdentifier(loop)] = Weak(value: self) }
    loop.addTurnEnd { [unowned self] in flush() }
    loop.startThread(name: "test-scripted")
  }

  private struct Weak: Sendable { weak var value: SDKScriptedServer? }
  private static let accepting = Locked<[ObjectIdentifier: Weak]>([:])

  var address: String { "127.0.0.1:\(port)" }

  func close() { loop.close() }

  /// Ends every session with this word.
  func end(_ refusal: Refusal) {
    loop.execute { [self] in for client in Array(clients.values) { client.session.end(refusal, now: loop.now) } }
  }

  /// Cuts every connection.
  func cut() {
    loop.execute { [self] in
      for client in clients.values { client.stream.close() }
      clients = [:]
    }
  }

  /// Delivers a message of `user`, device 1, to every client.
  ///
  /// - Parameter refusal: ends the sessions with this word, in the same write.
  func deliver(_ text: String, from user: String, order: UInt64, andEndWith refusal: Refusal? = nil) {
    loop.execute { [self] in
      let message = EncodedMessage(MessageContent(text: text), messageId: 1 << 40 | order, order: order, toUser: "bob")
      let payload = [UInt8](message.bytes.dropFirst(WireLimits.headerBytes))
      let relayed = EncodedMessage(relaying: payload.span, from: user, serverTime: 1)
      for client in Array(clients.values) {
        client.session.deliver(MessageKey(conversation: 1, order: order), relayed)
        guard let refusal else { continue }
        client.session.flush(now: loop.now, streamRoom: 1 << 20) { _, _ in }
        client.session.end(refusal, now: loop.now)
      }
    }
  }

  private func accept(_ stream: SimpIO.Stream) {
    let id = UInt64(clients.count) + RandomBytes.uint64() >> 16
    let session = ServerSession(id: id, owner: self, now: loop.now) { RandomBytes.uint64() }
    clients[id] = (session, stream)
    stream.onBytes = { [unowned self] bytes in session.receive(stream: bytes, now: loop.now) }
    stream.onClose = { [unowned self] _ in
      session.connectionClosed(now: loop.now)
      clients[id] = nil
    }
  }

  private func flush() {
    for (id, client) in clients {
      client.session.flush(now: loop.now, streamRoom: 1 << 20) { _, _ in }
      client.stream.write(client.session.takeStream())
      if client.session.isEnded {
        client.stream.closeAfterFlush(deadline: .seconds(1))
        clients[id] = nil
      }
    }
  }
}

extension SDKScriptedServer: ServerSessionOwner {
  func session(_ session: ServerSession, wantsLogin login: Login, now: Instant) {
    let number = logins.withLock { logins in
      logins.append((now, login.token))
      return logins.count - 1
    }
    switch script(number) {
    case .accept:
      var reply = LoginReply()
      reply.user = "bob"
      reply.deviceNumber = max(login.deviceNumber, 1)
      reply.sessionEpoch = UInt64(number + 1)
      reply.node = "scripted"
      session.accept(reply, login: login, protection: nil, now: now)
    case .refuse(let refusal):
      session.refuse(refusal, now: now)
    case .silence:
      break
    case .cut:
      clients[session.id]?.stream.close()
      clients[session.id] = nil
    }
  }

  /// Messages are held, and never delivered to anyone.
  func session(
    _ session: ServerSession, received fields: MessageFields, payload: Span<UInt8>, now: Instant
  ) -> MessageVerdict { .held }

  func session(_ session: ServerSession, reported outcome: Outcome, now: Instant) {
    reported.withLock { $0.append(outcome) }
  }

  func session(_ session: ServerSession, provedPath address: PeerAddress, now: Instant) {}
  func sessionPathWentDown(_ session: ServerSession, now: Instant) {}
  func session(_ session: ServerSession, endedWith refusal: Refusal, now: Instant) {}
}
