internal import SimpCore

/// What users' devices do not have yet: the keys `simp:inbox:{u:USER}` (a stream), `simp:intake:{u:USER}` and
/// `simp:idle:{u:USER}` (what ever was in it, and how much is) and `simp:expiry` (when to look for what is over).
///
/// One device a user, so one cursor: what it has is removed, the rest of the stream is what it does not have.
/// On the link's loop only; completions come once, never from inside the call. A name outside the grammar is answered
/// with `invalidName` before anything is sent, and a reply that no script of ours gives with `unexpectedReply`.
///
/// After any failure the call may have been carried out. Every call may be repeated: a message that is in the inbox is a
/// `duplicate`, an entry that is gone is not counted again.
public final class InboxDirectory {
  /// BOUND: entries in one call.
  public static let maximumBatch = 1000
  /// How long it is remembered what was in an inbox after it became empty: what a sender offers again later than that is
  /// taken again. As long as a receiver keeps its own marks.
  public static let memoryMilliseconds: UInt64 = 30 * 86_400 * 1000

  private static let expiryKey: RedisArgument = "simp:expiry"
  /// Bytes of payload that are read to see which entries are over.
  private static let expiryBytes = 1 << 20

  private let link: RedisLink
  private let appendScript: RedisScript
  private let removeScript: RedisScript
  private let readScript: RedisScript

  public init(link: RedisLink) {
    self.link = link
    appendScript = RedisScript(link: link, text: InboxScripts.append)
    removeScript = RedisScript(link: link, text: InboxScripts.remove)
    readScript = RedisScript(link: link, text: InboxScripts.read)
  }

  // MARK: In

  /// Adds a message to the inbox of `user` unless a device of his is live or it was added before.
  ///
  /// Those of one turn of the loop belong in one `RedisLink.together`, so that the disk is waited for once.
  ///
  /// - Parameters:
  ///   - knownDead: a session of this epoch or an older one is known to be dead: it is as if it had no endpoint. 0 for
  ///     none.
  ///   - spilling: the epoch of a session of the caller's own that is live and has no room; with the first message that
  ///     is added its endpoint becomes one that catches up, and an older one is as good as dead. 0 for none. Both epochs
  ///     are below 2^53.
  ///   - completion: `stored` and `duplicate` come only when `simp:expiry` knows of it, too.
  public func append(
    to user: String, message: InboxMessage, knownDead: UInt64, spilling: UInt64, limits: InboxLimits,
    completion: @escaping (Result<InboxAnswer, RedisError>) -> Void
  ) {
    precondition(knownDead < 1 << 53 && spilling < 1 << 53, "an epoch has at most 53 bits")
    guard let keys = keys(of: user, completion) else { return }
    guard Text.isUserName(message.from) else { return refuse(completion) }
    // Both are sent at once, and Redis writes both to its file at once as a rule. A sender who was told nothing because
    // only the first was done offers the message again, and with that the second is done again.
    var answer: Result<InboxAnswer, RedisError>?
    var noted: Result<Void, RedisError>?
    let finish = {
      guard let answer, let noted else { return }
      completion(answer.flatMap { answer in noted.map { answer } })
    }
    appendScript.run(
      keys: [keys.endpoints, keys.devices, keys.inbox, keys.intake, keys.idle],
      arguments: [
        RedisArgument(message.from), RedisArgument(message.device), RedisArgument(message.order),
        RedisArgument(message.floor), RedisArgument(message.expires), RedisArgument(message.payload),
        RedisArgument(knownDead), RedisArgument(spilling), RedisArgument(limits.messages),
        RedisArgument(limits.bytes), RedisArgument(limits.senderBytes), RedisArgument(limits.strangerMessages),
        RedisArgument(limits.ranges), RedisArgument(limits.senderDevices),
        RedisArgument(InboxLimits.entryOverheadBytes), message.follows ? "1" : "0",
      ]
    ) { result in
      answer = result.flatMap { reply in Self.answer(reply).map { .success($0) } ?? .failure(.unexpectedForm) }
      finish()
    }
    // In a cluster this key is in another slot, so that it cannot be written by the script.
    note(user, from: message.expires) { result in
      noted = result
      finish()
    }
  }

  private static func answer(_ reply: RedisReply) -> InboxAnswer? {
    switch reply {
    case .string: return reply.text.flatMap { InboxEntry.ID($0) }.map { .stored($0, toStranger: false) }
    case .array(let parts) where parts.count == 1:
      return parts[0].text.flatMap { InboxEntry.ID($0) }.map { .stored($0, toStranger: true) }
    case .integer(0): return .duplicate
    case .integer(2): return .gap
    case .integer(let limit) where limit < 0 && limit > -100:
      return InboxAnswer.Limit(rawValue: Int(-limit)).map { .full($0) }
    case .array(let parts):
      guard parts.count == 2, let node = parts[0].text, !node.isEmpty,
        let epoch = parts[1].integer.flatMap({ UInt64(exactly: $0) }), (1..<1 << 53).contains(epoch)
      else { return nil }
      return .live(node: node, epoch: epoch)
    default: return nil
    }
  }

  // MARK: Out

  /// Reads entries in their order.
  ///
  /// - Parameters:
  ///   - after: the entry behind which to begin; nil for the oldest.
  ///   - count: at most this many, 1 to `maximumBatch`.
  ///   - bytes: no more than this many bytes of payload, but always one entry if there is one.
  ///   - completion: empty when there is nothing behind `after`.
  public func read(
    user: String, after: InboxEntry.ID?, count: Int, bytes: Int = 1 << 20,
    completion: @escaping (Result<[InboxEntry], RedisError>) -> Void
  ) {
    precondition((1...Self.maximumBatch).contains(count) && bytes > 0, "a read has a size")
    guard let keys = keys(of: user, completion) else { return }
    let start = after.map { "(\($0)" } ?? "-"
    readScript.run(
      keys: [keys.inbox], arguments: [RedisArgument(start), RedisArgument(count), RedisArgument(bytes)]
    ) { result in
      completion(
        result.flatMap { reply in
          let entries = reply.elements?.map { InboxEntry($0) } ?? [nil]
          guard entries.allSatisfy({ $0 != nil }) else { return .failure(.unexpectedForm) }
          return .success(entries.compactMap { $0 })
        })
    }
  }

  /// Removes entries: a device has them, or they are given up. It stays known that they were in the inbox: what their
  /// sender offers again is a duplicate.
  ///
  /// Whatever session there is: a device that had a message before another logged in had it.
  ///
  /// - Parameter entries: at most `maximumBatch`; those that are gone already are passed over.
  public func remove(
    user: String, entries: [InboxEntry.ID], completion: @escaping (Result<InboxRemoval, RedisError>) -> Void
  ) {
    precondition(entries.count <= Self.maximumBatch, "too many entries for one call")
    guard let keys = keys(of: user, completion) else { return }
    let arguments = [RedisArgument(Self.memoryMilliseconds), RedisArgument(InboxLimits.entryOverheadBytes)]
    removeScript.run(
      keys: [keys.inbox, keys.intake, keys.idle],
      arguments: arguments + entries.map { RedisArgument($0.description) }
    ) { result in
      completion(
        result.flatMap { reply in
          guard let parts = reply.elements, parts.count == 2,
            let removed = parts[0].integer.flatMap({ Int(exactly: $0) }), (0...entries.count).contains(removed),
            let left = parts[1].integer.flatMap({ Int(exactly: $0) }), left >= 0
          else { return .failure(.unexpectedForm) }
          return .success(InboxRemoval(removed: removed, left: left))
        })
    }
  }

  // MARK: Over

  /// Users with something in the inbox whose time may be over, those of the earliest time first.
  ///
  /// - Parameters:
  ///   - before: milliseconds of Unix time.
  ///   - limit: at most this many, 1 to `maximumBatch`.
  public func expiring(
    before: UInt64, limit: Int, completion: @escaping (Result<[String], RedisError>) -> Void
  ) {
    precondition((1...Self.maximumBatch).contains(limit), "a list has a size")
    let words: [RedisArgument] = [
      "ZRANGEBYSCORE", Self.expiryKey, "-inf", RedisArgument(before), "LIMIT", "0", RedisArgument(limit),
    ]
    link.command(words) { result in
      completion(
        result.flatMap { reply in
          if case .error(let text) = reply { return .failure(RedisError(.server, "Redis: \(text)")) }
          let users = reply.elements?.map(\.text) ?? [nil]
          guard users.allSatisfy({ $0.map { Text.isUserName($0) } ?? false }) else { return .failure(.unexpectedForm) }
          return .success(users.compactMap { $0 })
        })
    }
  }

  /// The oldest entries as far as their time is over. Nothing is removed: once their senders' marks are written, `remove`
  /// does it.
  ///
  /// To be called until it answers nothing: only then `expiring` names the user no more before the time of what is left.
  ///
  /// - Parameters:
  ///   - now: milliseconds of Unix time; what expires at this time or before is over.
  ///   - limit: at most this many, 1 to `maximumBatch`.
  public func expire(
    user: String, now: UInt64, limit: Int, completion: @escaping (Result<[InboxEntry], RedisError>) -> Void
  ) {
    read(user: user, after: nil, count: limit, bytes: Self.expiryBytes) { [self] result in
      guard case .success(let entries) = result else { return completion(result) }
      let over = Array(entries.prefix { $0.expires <= now })
      guard over.isEmpty else { return completion(.success(over)) }
      let done: (Result<Void, RedisError>) -> Void = { completion($0.map { [] }) }
      if let oldest = entries.first {
        index(["ZADD", Self.expiryKey, RedisArgument(oldest.expires), RedisArgument(user)], done)
      } else {
        forget(user, done)
      }
    }
  }

  /// Takes a user without entries out of the index. It is looked again behind it: what was added in between may have
  /// been noted before.
  private func forget(_ user: String, _ completion: @escaping (Result<Void, RedisError>) -> Void) {
    index(["ZREM", Self.expiryKey, RedisArgument(user)]) { [self] result in
      guard case .success = result else { return completion(result) }
      read(user: user, after: nil, count: 1, bytes: 1) { [self] result in
        switch result {
        case .success(let entries):
          guard let oldest = entries.first else { return completion(.success(())) }
          note(user, from: oldest.expires, completion)
        case .failure(let error): completion(.failure(error))
        }
      }
    }
  }

  private func note(_ user: String, from expires: UInt64, _ completion: @escaping (Result<Void, RedisError>) -> Void) {
    index(["ZADD", Self.expiryKey, "LT", RedisArgument(expires), RedisArgument(user)], completion)
  }

  private func index(_ words: [RedisArgument], _ completion: @escaping (Result<Void, RedisError>) -> Void) {
    link.command(words) { result in
      completion(
        result.flatMap { reply in
          switch reply {
          case .integer: .success(())
          case .error(let text): .failure(RedisError(.server, "Redis: \(text)"))
          default: .failure(.unexpectedForm)
          }
        })
    }
  }

  // MARK: Names

  private func keys<Value>(of user: String, _ completion: @escaping (Result<Value, RedisError>) -> Void) -> Keys? {
    guard Text.isUserName(user) else {
      refuse(completion)
      return nil
    }
    return Keys(user: user)
  }

  /// By way of the link, so that the answer comes in a later turn like all others.
  private func refuse<Value>(_ completion: @escaping (Result<Value, RedisError>) -> Void) {
    link.refuse(RedisError(.invalidName, "not a user name")) { completion(.failure($0)) }
  }

  private struct Keys {
    let endpoints, devices, inbox, intake, idle: String

    init(user: String) {
      endpoints = "simp:endpoints:{u:\(user)}"
      devices = "simp:devices:{u:\(user)}"
      inbox = "simp:inbox:{u:\(user)}"
      intake = "simp:intake:{u:\(user)}"
      idle = "simp:idle:{u:\(user)}"
    }
  }
}

/// What a removal has left.
public struct InboxRemoval: Hashable, Sendable {
  /// How many of the entries were there.
  public let removed: Int
  /// How many others are in the inbox now.
  public let left: Int
}
