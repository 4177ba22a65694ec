internal import SimpCore

/// Users that were sent away: `simp:revoked:{u:USER}` of Redis holds the time, in Unix seconds, up to which a token must
/// have been issued to be refused. The key goes by itself when it has stood for its lifetime.
///
/// On the link's loop only; completions come once, never from inside the call.
public final class RevocationDirectory {
  private let link: RedisLink
  private let script: RedisScript

  public init(link: RedisLink) {
    self.link = link
    script = RedisScript(link: link, text: Self.raise)
  }

  /// KEYS: revoked. ARGV: time, lifetime in seconds. A later time that stands already stays.
  private static let raise = """
    local stored = tonumber(redis.call('GET', KEYS[1]) or '0') or 0
    if stored > tonumber(ARGV[1]) then return 0 end
    redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
    return 1
    """

  /// Notes that tokens of `user` issued up to `until` are refused.
  ///
  /// - Parameters:
  ///   - user: a user name; the caller has checked it.
  ///   - lifetimeSeconds: how long from now, at least 1.
  ///   - completion: nil when it stands there, else why it does not.
  public func write(
    user: String, until: UInt64, lifetimeSeconds: UInt64, completion: @escaping (RedisError?) -> Void
  ) {
    precondition(Text.isUserName(user) && lifetimeSeconds > 0, "a revocation is of a user and lasts")
    script.run(keys: [Self.key(user)], arguments: [RedisArgument(until), RedisArgument(lifetimeSeconds)]) { result in
      switch result {
      case .success(.error(let text)): completion(RedisError(.server, "Redis: \(text)"))
      case .success: completion(nil)
      case .failure(let error): completion(error)
      }
    }
  }

  /// Asks for the time, nil when there is none.
  public func read(user: String, completion: @escaping (Result<UInt64?, RedisError>) -> Void) {
    precondition(Text.isUserName(user), "a revocation is of a user")
    link.command(["GET", RedisArgument(Self.key(user))]) { result in
      completion(
        result.flatMap { reply in
          if case .null = reply { return .success(nil) }
          if case .error(let text) = reply { return .failure(RedisError(.server, "Redis: \(text)")) }
          guard let time = reply.text.flatMap({ UInt64($0) }) else {
            return .failure(.unexpectedForm)
          }
          return .success(time)
        })
    }
  }

  private static func key(_ user: String) -> String { "simp:revoked:{u:\(user)}" }
}
