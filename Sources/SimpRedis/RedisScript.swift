/// A Lua script that Redis runs as one step: by its hash where Redis knows it, by its text where it does not.
///
/// Belongs to one link and its loop. The hash is Redis's own, asked for each time the link comes up.
final class RedisScript {
  private let link: RedisLink
  private let text: String
  private var hash: String?

  init(link: RedisLink, text: String) {
    self.link = link
    self.text = text
    link.observeUp { [weak self] in self?.load() }
  }

  private func load() {
    hash = nil
    link.command(["SCRIPT", "LOAD", RedisArgument(text)]) { [weak self] result in
      // Without the hash the text is sent, so a failure here costs bytes only.
      if case .success(let reply) = result { self?.hash = reply.text }
    }
  }

  /// Runs the script once.
  ///
  /// - Parameter completion: called once, never from inside this call; a Redis that answers with an error is a failure
  ///   with code `server` here.
  func run(
    keys: [String], arguments: [RedisArgument], completion: @escaping (Result<RedisReply, RedisError>) -> Void
  ) {
    let tail = [RedisArgument(keys.count)] + keys.map { RedisArgument($0) } + arguments
    guard let hash else {
      runText(tail, completion)
      return
    }
    link.command(["EVALSHA", RedisArgument(hash)] + tail) { [self] result in
      // Redis forgets scripts when it restarts, fails over, or is told to. NOSCRIPT comes before anything was done.
      if case .success(.error(let text)) = result, text.hasPrefix("NOSCRIPT") {
        runText(tail, completion)
      } else {
        completion(Self.flattened(result))
      }
    }
  }

  private func runText(
    _ tail: [RedisArgument], _ completion: @escaping (Result<RedisReply, RedisError>) -> Void
  ) {
    link.command(["EVAL", RedisArgument(text)] + tail) { completion(Self.flattened($0)) }
  }

  private static func flattened(_ result: Result<RedisReply, RedisError>) -> Result<RedisReply, RedisError> {
    if case .success(.error(let text)) = result { return .failure(RedisError(.server, "Redis: \(text)")) }
    return result
  }
}
