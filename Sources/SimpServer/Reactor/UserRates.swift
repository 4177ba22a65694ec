internal import SimpCore
internal import SimpIO

/// How much one user sends, and leaves with those who never logged in, over both channels and all sessions, on whichever
/// reactors they are. Its lock is contended only by a user who sends on several reactors at once.
final class UserRate: Sendable {
  fileprivate struct Buckets {
    var sessions = 0
    var messages: TokenBucket?
    var bytes: TokenBucket?
    var strangers: TokenBucket
  }

  private let buckets: Locked<Buckets>
  private let isLimited: Bool

  fileprivate init(messages: TokenBucket?, bytes: TokenBucket?, strangers: TokenBucket) {
    buckets = Locked(Buckets(messages: messages, bytes: bytes, strangers: strangers))
    isLimited = messages != nil || bytes != nil
  }

  /// A message of `count` bytes.
  ///
  /// - Returns: nil when it is within the rate, else when to offer it again.
  func take(bytes count: Int, now: Instant) -> Interval? {
    guard isLimited else { return nil }
    return buckets.withLock { buckets in
      if let wait = buckets.messages?.take(now: now) { return wait }
      guard let wait = buckets.bytes?.take(count, now: now) else { return nil }
      buckets.messages?.giveBack(1)
      return wait
    }
  }

  /// Whether the user may leave more with those who never logged in.
  func reachesStrangers(now: Instant) -> Bool { buckets.withLock { !$0.strangers.isEmpty(now: now) } }

  /// A message of `count` bytes was stored for one of them.
  func reachedStranger(bytes count: Int, now: Instant) {
    buckets.withLock { $0.strangers.charge(count, now: now) }
  }

  fileprivate func addSessions(_ count: Int) { buckets.withLock { $0.sessions += count } }

  fileprivate func isAtRest(now: Instant) -> Bool {
    buckets.withLock { buckets in
      buckets.sessions == 0 && buckets.messages?.isFull(now: now) ?? true && buckets.bytes?.isFull(now: now) ?? true
        && buckets.strangers.isFull(now: now)
    }
  }
}

/// The rates of all users of a server.
final class UserRates: Sendable {
  private struct Table {
    // BOUND: users with a session, and those who left with less than a full bucket, which is full again after
    // `burstSeconds`, and the one for strangers after a day: they came by a login each, and logins have a rate. Swept when
    // the table has doubled.
    var rates: [String: UserRate] = [:]
    var sweepAt = 64
  }

  private let table = Locked(Table())
  private let messagesPerSecond: Int
  private let bytesPerSecond: Int
  private let strangerBytes: Int
  /// A burst is what the rate gives in this time.
  static let burstSeconds = 2

  convenience init(_ limits: ServerLimits) {
    self.init(
      messagesPerSecond: limits.messagesPerSecond, bytesPerSecond: limits.bytesPerSecond,
      strangerBytes: limits.strangerBytes)
  }

  /// - Parameters:
  ///   - messagesPerSecond, bytesPerSecond: 0: no limit.
  ///   - strangerBytes: of a day.
  init(messagesPerSecond: Int, bytesPerSecond: Int, strangerBytes: Int = 0) {
    self.messagesPerSecond = messagesPerSecond
    self.bytesPerSecond = bytesPerSecond
    self.strangerBytes = strangerBytes
  }

  var count: Int { table.withLock { $0.rates.count } }

  /// A session of the user begins.
  func begin(_ user: String, now: Instant) -> UserRate {
    table.withLock { table in
      if table.rates.count >= table.sweepAt {
        table.rates = table.rates.filter { !$0.value.isAtRest(now: now) }
        table.sweepAt = max(64, 2 * table.rates.count)
      }
      let rate = table.rates[user] ?? makeRate()
      rate.addSessions(1)
      table.rates[user] = rate
      return rate
    }
  }

  /// A session of the user is over. What it used up stays used: a new login is no way around the rate.
  func end(_ rate: UserRate) { rate.addSessions(-1) }

  private func makeRate() -> UserRate {
    func bucket(_ perSecond: Int, atLeast: Int) -> TokenBucket? {
      perSecond == 0 ? nil : TokenBucket(perSecond: perSecond, burst: max(Self.burstSeconds * perSecond, atLeast))
    }
    return UserRate(
      messages: bucket(messagesPerSecond, atLeast: 1),
      // The largest message passes at any rate.
      bytes: bucket(bytesPerSecond, atLeast: WireLimits.maximumPacketBytes),
      strangers: TokenBucket(perSecond: max(1, strangerBytes / 86_400), burst: strangerBytes))
  }
}
