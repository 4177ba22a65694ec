internal import SimpCore

/// A command whose reply is awaited. hiredis holds one reference until it has called back, the queue of its connection
/// another.
final class PendingCommand {
  /// How long the caller waits, and until when.
  let patience: Interval
  let deadline: Instant
  /// What the command takes up while it waits. Bytes.
  let size: Int
  unowned let connection: RedisConnection
  private var completion: ((Result<RedisReply, RedisError>) -> Void)?

  init(
    connection: RedisConnection, sent: Instant, patience: Interval, size: Int,
    completion: @escaping (Result<RedisReply, RedisError>) -> Void
  ) {
    self.connection = connection
    self.patience = patience
    deadline = sent + patience
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
