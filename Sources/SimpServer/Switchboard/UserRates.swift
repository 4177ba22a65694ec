internal import SimpCore

/// How much one user sends, over both channels and all sessions that this reactor has of it. Touched only there: a user
/// with send-only sessions on several reactors has the rate on each of them, for a lock on the way of each message would
/// cost all others more.
final class UserRate {
  fileprivate var sessions = 0
  fileprivate var messages: TokenBucket?
  fileprivate var bytes: TokenBucket?

  fileprivate init(messages: TokenBucket?, bytes: TokenBucket?) {
    self.messages = messages
    self.bytes = bytes
  }

  /// A message of `count` bytes.
  ///
  /// - Returns: nil when it is within the rate, else when to offer it again.
  func take(bytes count: Int, now: Instant) -> Interval? {
    if let wait = messages?.take(now: now) { return wait }
    guard let wait = bytes?.take(count, now: now) else { return nil }
    messages?.giveBack(1)
    return wait
  }

  fileprivate func isAtRest(now: Instant) -> Bool {
    sessions == 0 && messages?.isFull(now: now) ?? true && bytes?.isFull(now: now) ?? true
  }
}

/// The rates of all users of one reactor.
struct UserRates {
  // BOUND: users with a session here, and those who left with less than a full bucket, which is full again after
  // `burstSeconds`: they came by a login each, and logins have a rate. Swept when the table has doubled.
  private var rates: [String: UserRate] = [:]
  private var sweepAt = 64
  private let messagesPerSecond: Int
  private let bytesPerSecond: Int
  /// A burst is what the rate gives in this time.
  static let burstSeconds = 2

  /// - Parameters: 0: no limit.
  init(messagesPerSecond: Int, bytesPerSecond: Int) {
    self.messagesPerSecond = messagesPerSecond
    self.bytesPerSecond = bytesPerSecond
  }

  var count: Int { rates.count }

  /// A session of the user begins; nil when nothing is limited.
  mutating func begin(_ user: String, now: Instant) -> UserRate? {
    guard messagesPerSecond > 0 || bytesPerSecond > 0 else { return nil }
    if rates.count >= sweepAt {
      rates = rates.filter { !$0.value.isAtRest(now: now) }
      sweepAt = max(64, 2 * rates.count)
    }
    let rate = rates[user] ?? makeRate()
    rate.sessions += 1
    rates[user] = rate
    return rate
  }

  /// A session of the user is over. What it used up stays used: a new login is no way around the rate.
  mutating func end(_ rate: UserRate) { rate.sessions -= 1 }

  private func makeRate() -> UserRate {
    func bucket(_ perSecond: Int, atLeast: Int) -> TokenBucket? {
      perSecond == 0 ? nil : TokenBucket(perSecond: perSecond, burst: max(Self.burstSeconds * perSecond, atLeast))
    }
    return UserRate(
      messages: bucket(messagesPerSecond, atLeast: 1),
      // The largest message passes at any rate.
      bytes: bucket(bytesPerSecond, atLeast: WireLimits.maximumPacketBytes))
  }
}
