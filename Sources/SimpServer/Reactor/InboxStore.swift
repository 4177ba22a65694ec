internal import SimpCore
internal import SimpIO
internal import SimpRedis
internal import SimpSupport

/// The inboxes of the store, for one reactor.
///
/// What is to be added in one turn of the loop goes as one batch, and while two are under way what comes gathers: with
/// `appendfsync always` Redis waits for its disk once a batch.
final class InboxStore {
  private struct Append {
    var message: InboxMessage
    var user: String
    var knownDead: UInt64
    var spilling: UInt64
    var refusesStrangers: Bool
    var completion: (InboxAnswer?) -> Void
  }

  let link: RedisLink
  let directory: InboxDirectory
  let marks: MarkDirectory
  private let limits: InboxLimits
  private var limitsWithoutStrangers: InboxLimits
  private let acceptsMemory: Bool
  let log: Log
  let counters: ServerCounters
  private var gathered: [Append] = []
  private var batches = 0
  private(set) var state = InboxState.away
  /// What was said of it in the log last.
  private var told: RedisDurability?
  /// Asks again how durable the store is, when it did not say.
  private var asking: LoopTimer!
  private let loop: EventLoop

  // BOUND: batches under way, each of at most `batchMessages` and `batchBytes`: that is what Redis does before its deadline.
  private static let maximumBatches = 2
  private static let batchMessages = 1000
  /// Far below what a link takes at once, so that a login finds room beside it.
  private static let batchBytes = 4 << 20

  /// - Parameters:
  ///   - acceptsMemory: STORED may be said of what only the memory of Redis holds.
  init(loop: EventLoop, link: RedisLink, limits: InboxLimits, acceptsMemory: Bool, log: Log, counters: ServerCounters) {
    self.loop = loop
    self.link = link
    directory = InboxDirectory(link: link)
    marks = MarkDirectory(link: link)
    self.counters = counters
    self.limits = limits
    limitsWithoutStrangers = limits
    limitsWithoutStrangers.strangerMessages = 0
    self.acceptsMemory = acceptsMemory
    self.log = log
    asking = loop.makeTimer { [unowned self] in self.storeIsUp() }
  }

  // MARK: - The store

  /// The link came up: how durable its answers are is asked each time, for it can be set while Redis runs.
  func storeIsUp() {
    guard link.isUp else { return }
    link.durability { [weak self] result in
      guard let self, self.link.isUp else { return }
      switch result {
      case .success(let durability):
        let isKept = self.limits.messages > 0 && (durability == .always || self.acceptsMemory)
        self.state = isKept ? .ready : .off
        self.tell(durability)
      case .failure(let error):
        self.log.warn("redis does not say how durable it is", ["reason": error])
        self.asking.arm(at: self.loop.now + .seconds(1))
      }
    }
  }

  func storeIsDown() { state = .away }

  private func tell(_ durability: RedisDurability) {
    guard told != durability, limits.messages > 0 else { return }
    told = durability
    switch (durability, acceptsMemory) {
    case (.always, _): break
    case (_, true):
      log.warn("stored messages may be lost with redis, as --stored-means memory allows", ["redis": "\(durability)"])
    case (_, false):
      log.warn(
        """
        messages for who is away are refused: redis answers before its disk has them; give it appendonly yes and \
        appendfsync always, or take --stored-means memory
        """, ["redis": "\(durability)"])
    }
  }

  // MARK: - In

  func append(
    _ message: InboxMessage, to user: String, knownDead: UInt64, spilling: UInt64, refusesStrangers: Bool,
    completion: @escaping (InboxAnswer?) -> Void
  ) {
    gathered.append(
      Append(
        message: message, user: user, knownDead: knownDead, spilling: spilling, refusesStrangers: refusesStrangers,
        completion: completion))
  }

  /// The turn of the loop is over.
  func endTurn() {
    while batches < Self.maximumBatches, !gathered.isEmpty { sendBatch() }
  }

  private func sendBatch() {
    var bytes = 0
    let count = gathered.prefix(Self.batchMessages).prefix { append in
      bytes += append.message.payload.count
      return bytes <= Self.batchBytes
    }.count
    let batch = Array(gathered.prefix(max(1, count)))
    gathered.removeFirst(batch.count)
    batches += 1
    var unanswered = batch.count
    link.together {
      for append in batch {
        directory.append(
          to: append.user, message: append.message, knownDead: append.knownDead, spilling: append.spilling,
          limits: append.refusesStrangers ? limitsWithoutStrangers : limits
        ) { [weak self] result in
          if case .failure(let error) = result {
            self?.log.debug("message not stored", ["user": append.user, "reason": error])
          }
          append.completion(try? result.get())
          unanswered -= 1
          guard unanswered == 0, let self else { return }
          self.batches -= 1
          self.endTurn()
        }
      }
    }
  }

  // MARK: - Out

  func read(
    of user: String, after: InboxEntry.ID?, count: Int, bytes: Int, completion: @escaping ([InboxEntry]?) -> Void
  ) {
    directory.read(user: user, after: after, count: count, bytes: bytes) { [log] result in
      if case .failure(let error) = result { log.debug("inbox not read", ["user": user, "reason": error]) }
      completion(try? result.get())
    }
  }

  /// - Parameter completion: nil when Redis did not say.
  func isAlive(node: String, completion: @escaping (Bool?) -> Void) {
    link.command(["EXISTS", RedisArgument("simp:node:\(node)")]) { result in
      guard case .success(let reply) = result, let count = reply.integer else { return completion(nil) }
      completion(count > 0)
    }
  }
}
