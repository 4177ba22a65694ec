internal import SimpCore

/// Commands that Redis carries out one after another without anything in between, and writes to its file at once.
///
/// Redis reads some 16 KiB of a connection, carries that out, and with `appendfsync always` waits for the disk before it
/// reads on. Between MULTI and EXEC nothing is carried out before all is there, so that the disk is waited for once.
struct RedisBatch {
  /// BOUND: commands of one batch, for Redis serves nobody else meanwhile.
  static let maximumCommands = 2000

  struct Command {
    let arguments: [RedisArgument]
    let deadline: Interval
    let completion: (Result<RedisReply, RedisError>) -> Void
  }

  var commands: [Command] = []

  /// Tells every command its reply, out of what EXEC was answered with.
  func complete(_ result: Result<RedisReply, RedisError>) {
    let failure: RedisError
    switch result {
    case .success(.array(let replies)) where replies.count == commands.count:
      for (command, reply) in zip(commands, replies) { command.completion(.success(reply)) }
      return
    // A word that Redis did not take, for lack of memory or for another reason: nothing was done of any.
    case .success(.error(let text)): failure = RedisError(.server, "Redis: \(text)")
    case .success: failure = .unexpectedForm
    case .failure(let error): failure = error
    }
    for command in commands { command.completion(.failure(failure)) }
  }
}
