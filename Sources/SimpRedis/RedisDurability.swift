/// When Redis writes to the disk what it answers.
public enum RedisDurability: Hashable, Sendable {
  /// Before it answers: what it said is there after any crash.
  case always
  /// Once a second: a crash of its machine takes that second.
  case everySecond
  /// When the kernel does.
  case never
  /// There is no append-only file; snapshots at best.
  case noAppendOnlyFile
  /// Redis does not say: it forbids CONFIG, or uses a word that is not known here.
  case unknown
}

extension RedisLink {
  /// Asks Redis how durable its answers are.
  ///
  /// It is a setting that can be changed while Redis runs: ask again whenever the link has come up.
  ///
  /// - Parameter completion: called once, on the loop, never from inside this call.
  public func durability(completion: @escaping (Result<RedisDurability, RedisError>) -> Void) {
    command(["CONFIG", "GET", "append*"]) { completion($0.flatMap { RedisDurability.read($0) }) }
  }
}

extension RedisDurability {
  /// Reads what CONFIG GET answers.
  static func read(_ reply: RedisReply) -> Result<RedisDurability, RedisError> {
    // Services that forbid it know no such command; an own Redis has taken it from the user, or given it another name.
    if case .error(let text) = reply {
      let isForbidden = text.hasPrefix("NOPERM") || text.hasPrefix("ERR unknown ")
      return isForbidden ? .success(.unknown) : .failure(RedisError(.server, "Redis: \(text)"))
    }
    guard let words = reply.elements, words.count.isMultiple(of: 2) else { return .failure(.unexpectedForm) }
    var settings: [String: String] = [:]
    for index in stride(from: 0, to: words.count, by: 2) {
      guard let name = words[index].text, let value = words[index + 1].text else { return .failure(.unexpectedForm) }
      settings[name] = value
    }
    switch (settings["appendonly"], settings["appendfsync"]) {
    case ("no", _): return .success(.noAppendOnlyFile)
    case ("yes", "always"): return .success(.always)
    case ("yes", "everysec"): return .success(.everySecond)
    case ("yes", "no"): return .success(.never)
    default: return .success(.unknown)
    }
  }
}
