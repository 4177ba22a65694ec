internal import Glibc
public import SimpCore
public import SimpIO

/// What a login gets from the directory.
public struct SessionGrant: Hashable, Sendable {
  /// The number of the outbox, 1 to 2^24 - 1.
  public let deviceNumber: UInt32
  /// Grows with each session of the user, below 2^53; 0 for a send-only login, which has none.
  public let epoch: UInt64

  public init(deviceNumber: UInt32, epoch: UInt64) {
    self.deviceNumber = deviceNumber
    self.epoch = epoch
  }
}

/// How a session is reached.
public enum EndpointTransport: String, Sendable {
  case tcp, udp
}

/// What became of an endpoint that was to be written.
public enum EndpointState: Sendable {
  /// A newer session of the user exists; nothing was written.
  case superseded
  /// Written. The inbox holds something: the device gets messages from there alone until it is empty and the endpoint
  /// was written again.
  case catchingUp
  /// Written. The inbox is empty, and whoever has a message for the user sends it here.
  case live
}

/// Where users are: the keys `simp:devices:{u:USER}`, `simp:endpoints:{u:USER}` and `simp:node:ID` of Redis. Of
/// `simp:inbox:{u:USER}` it only asks whether it is empty.
///
/// Every write is one script, fenced by the session's epoch: what an older session says late changes nothing. On the
/// link's loop only; completions come once, never from inside the call, and a user name outside the grammar is answered
/// with `invalidName` before anything is sent.
public final class EndpointDirectory {
  /// This server's id, different at each start: 1 to 64 of `A-Z a-z 0-9 . _ -`.
  public let node: String

  /// How long `simp:node:ID` lasts without being refreshed, and how often it is.
  public static let nodeLifetime = Interval.seconds(15)
  public static let nodeRefresh = Interval.seconds(5)

  private let loop: EventLoop
  private let link: RedisLink
  private let openScript: RedisScript
  private let writeScript: RedisScript
  private let removeScript: RedisScript
  private let startedAt = EventLoop.wallClockMilliseconds
  private var refresh: LoopTimer?

  public init(loop: EventLoop, link: RedisLink, node: String) {
    precondition(
      (1...64).contains(node.utf8.count)
        && node.utf8.allSatisfy { Self.isLetterOrDigit($0) || [0x2D, 0x2E, 0x5F].contains($0) },
      "a node id is of letters, digits, and . _ -")
    self.loop = loop
    self.link = link
    self.node = node
    openScript = RedisScript(link: link, text: EndpointScripts.openSession)
    writeScript = RedisScript(link: link, text: EndpointScripts.writeEndpoint)
    removeScript = RedisScript(link: link, text: EndpointScripts.removeEndpoint)
  }

  // MARK: Sessions

  /// Gives a session its device number and epoch.
  ///
  /// The number is the one stored for the outbox; else `presentedDevice` if it is not 0 and no other outbox of the user
  /// has it; else one higher than any given or taken before. The epoch is `proposedEpoch`, or one more than the
  /// stored one where that is higher.
  ///
  /// - Parameters:
  ///   - presentedDevice: the number that the outbox believes to have; 0, or more than 24 bits, for none.
  ///   - sendOnly: such a session takes a number but no epoch, so that it ends nobody.
  ///   - proposedEpoch: Unix seconds << 20; below 2^53.
  public func openSession(
    user: String, outboxId: UInt64, presentedDevice: UInt32, sendOnly: Bool, proposedEpoch: UInt64,
    completion: @escaping (Result<SessionGrant, RedisError>) -> Void
  ) {
    precondition(proposedEpoch < 1 << 53, "an epoch has at most 53 bits")
    guard let keys = keys(of: user, completion) else { return }
    let presented = presentedDevice < 1 << 24 ? presentedDevice : 0
    let arguments = [
      RedisArgument(hex(outboxId, digits: 16)), RedisArgument(presented), RedisArgument(proposedEpoch),
      sendOnly ? "1" : "0", RedisArgument(EndpointScripts.rememberedOutboxes),
    ]
    openScript.run(keys: [keys.devices], arguments: arguments) { result in
      completion(
        result.flatMap { reply in
          guard let parts = reply.elements, parts.count == 2,
            let number = parts[0].integer.flatMap({ UInt32(exactly: $0) }), (1..<1 << 24).contains(number),
            let epoch = parts[1].integer.flatMap({ UInt64(exactly: $0) }), epoch < 1 << 53
          else { return .failure(.unexpectedForm) }
          return .success(SessionGrant(deviceNumber: number, epoch: epoch))
        })
    }
  }

  /// Writes where the session is, and removes endpoints of older sessions of the user. It is live if nothing is in the
  /// user's inbox, else catching up: both are decided and written in one step.
  ///
  /// - Parameters:
  ///   - address: the proven UDP address; nil where there is none.
  ///   - since: when the session began, in milliseconds of Unix time.
  public func writeEndpoint(
    user: String, device: UInt32, epoch: UInt64, connectionId: UInt64, address: PeerAddress?,
    transport: EndpointTransport, since: UInt64, completion: @escaping (Result<EndpointState, RedisError>) -> Void
  ) {
    precondition(epoch < 1 << 53, "an epoch has at most 53 bits")
    guard let keys = keys(of: user, completion) else { return }
    let value =
      "epoch=\(epoch) node=\(node) cid=\(hex(connectionId, digits: 12)) udp=\(address.map(\.description) ?? "-")"
      + " since=\(since) transport=\(transport.rawValue)"
    writeScript.run(
      keys: [keys.devices, keys.endpoints, keys.inbox],
      arguments: [RedisArgument(device), RedisArgument(epoch), RedisArgument(value)]
    ) { result in
      completion(
        result.flatMap { reply in
          switch reply.integer {
          case 0: .success(.superseded)
          case 1: .success(.catchingUp)
          case 2: .success(.live)
          default: .failure(.unexpectedForm)
          }
        })
    }
  }

  /// Removes the session's endpoint, and only that: one of a newer session stays.
  ///
  /// - Parameter completion: whether there was one.
  public func removeEndpoint(
    user: String, device: UInt32, epoch: UInt64, completion: @escaping (Result<Bool, RedisError>) -> Void = { _ in }
  ) {
    guard let keys = keys(of: user, completion) else { return }
    removeScript.run(keys: [keys.endpoints], arguments: [RedisArgument(device), RedisArgument(epoch)]) {
      completion(Self.yesOrNo($0))
    }
  }

  // MARK: The node

  /// Writes `simp:node:ID` now, whenever the link comes up, and every 5 s, until `removeNode`.
  public func keepAlive() {
    guard refresh == nil else { return }
    refresh = loop.makeTimer { [weak self] in self?.refreshNode() }
    link.observeUp { [weak self] in self?.refreshNode() }
    if !link.isUp { refresh?.arm(at: loop.now + Self.nodeRefresh) }
  }

  private func refreshNode() {
    guard let refresh else { return }
    refresh.arm(at: loop.now + Self.nodeRefresh)
    guard link.isUp else { return }
    let seconds = Self.nodeLifetime.nanoseconds / 1_000_000_000
    let value = "since=\(startedAt) pid=\(getpid())"
    link.command(["SET", RedisArgument("simp:node:\(node)"), RedisArgument(value), "EX", RedisArgument(seconds)]) { _ in
      // A failure means that the link goes; the key is written again when it is back.
    }
  }

  /// Removes the key of another node, which is known to be gone; else it would be taken for alive until its key expires.
  public func remove(node other: String) {
    link.command(["DEL", RedisArgument("simp:node:\(other)")]) { _ in
      // A failure means that the link goes; the key goes by itself.
    }
  }

  /// Ends `keepAlive` and removes the key.
  public func removeNode(completion: @escaping (Result<Bool, RedisError>) -> Void = { _ in }) {
    refresh?.close()
    refresh = nil
    link.command(["DEL", RedisArgument("simp:node:\(node)")]) { completion(Self.yesOrNo($0)) }
  }

  // MARK: Helpers

  private func keys<Value>(
    of user: String, _ completion: @escaping (Result<Value, RedisError>) -> Void
  ) -> (devices: String, endpoints: String, inbox: String)? {
    guard Text.isUserName(user) else {
      // By way of the link, so that the answer comes in a later turn like all others.
      link.refuse(RedisError(.invalidName, "not a user name")) { completion(.failure($0)) }
      return nil
    }
    return ("simp:devices:{u:\(user)}", "simp:endpoints:{u:\(user)}", "simp:inbox:{u:\(user)}")
  }

  private static func yesOrNo(_ result: Result<RedisReply, RedisError>) -> Result<Bool, RedisError> {
    result.flatMap { reply in
      switch reply {
      case .integer(let count): .success(count != 0)
      case .error(let text): .failure(RedisError(.server, "Redis: \(text)"))
      default: .failure(.unexpectedForm)
      }
    }
  }

  private func hex(_ value: UInt64, digits: Int) -> String {
    let text = String(value, radix: 16)
    precondition(text.count <= digits, "a number of at most \(4 * digits) bits")
    return String(repeating: "0", count: digits - text.count) + text
  }

  private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
    (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
  }
}
