internal import SimpCore

/// A command whose reply is awaited. hiredis holds one reference until it has called back, the queue of its connection
/// another.
final class PendingCommand {
  let deadline: Instant
  /// What the command takes up while it waits. Bytes.
  let size: Int
  unowned let connection: RedisConnection
  private var completion: ((Result<RedisReply, RedisError>) -> Void)?

  init(
    connection: RedisConnection, deadline: Instant, size: Int,
    completion: @escaping (Result<RedisReply, RedisError>) -> Void
  ) {
    self.connection = connection
    self.deadline = deadline
    self.size = size
    self.completion = completion
  }

  /// Whether the caller still waits.
  var isOpen: Bool { completion != nil }

  /// Tells the caller, the first time only.
  func complete(_ result: Result<RedisReply, RedisError>) {
    let completion = completion
    self.completion = nil
    completion?(result)
  }
}
