/// When a client challenges its path, and with what: at once and often after a login, then as the wire document says,
/// and as a keep-alive while the path is up. Moving paths belong here when they come.
struct PathProver {
  private var outstanding: [UInt64] = []
  private var seed: UInt64 = 0
  private var started: Instant?
  private var round = 0
  private var next = Instant.never
  /// The server asked for a proof although the path is up here.
  private var isRequested = false
  private var wentDown = Instant(nanoseconds: 0)
  private var lastKeepAlive = Instant(nanoseconds: 0)
  /// The server showed that the path is proven to it as well.
  private var isConfirmed = false
  /// From the last datagram to a keep-alive; told by the server.
  var keepAlive = WireTimes.udpKeepAlive
  /// How much earlier the next keep-alive is due, so that those of many clients do not come together.
  private var jitter = Interval.zero
  /// The server's challenge that waits for its answer.
  private(set) var toAnswer: UInt64?

  /// - Parameter seed: random; the tokens are drawn from it.
  mutating func start(seed: UInt64, now: Instant) {
    self.seed = seed
    started = now
    round = 0
    next = now
    wentDown = now
  }

  /// PATH_UP came, or a receipt by UDP: the server has its proof. Until then challenges go on, for the answer to the
  /// server's own challenge may be lost.
  mutating func confirmed(now: Instant) {
    if !isConfirmed { lastKeepAlive = now }
    isConfirmed = true
  }

  mutating func pathWentDown(now: Instant) {
    isConfirmed = false
    round = WireTimes.firstChallenges.count
    wentDown = now
    next = now
  }

  /// The server asks for a proof now.
  mutating func request(now: Instant) {
    guard started != nil else { return }
    next = min(next, now)
    isRequested = true
  }

  mutating func challenged(_ token: UInt64) { toAnswer = token }

  mutating func takeAnswer() -> UInt64? {
    defer { toAnswer = nil }
    return toAnswer
  }

  /// - Returns: whether the token is one that was sent and not answered.
  mutating func responded(_ token: UInt64, now: Instant) -> Bool {
    guard outstanding.contains(token) else { return false }
    outstanding.removeAll()
    return true
  }

  /// - Parameter lastSent: when the last datagram left: whatever it held, translators on the way saw it.
  func deadline(path: PathState, isBusy: Bool, lastSent: Instant = Instant(nanoseconds: 0)) -> Instant {
    guard started != nil else { return .never }
    return isSettled(path) ? max(lastKeepAlive, lastSent) + keepAlive - jitter : next
  }

  private func isSettled(_ path: PathState) -> Bool { path == .up && isConfirmed && !isRequested }

  enum Due {
    case keepAlive
    case challenge(UInt64)
  }

  /// What to send now, nil when nothing is due.
  mutating func poll(
    now: Instant, path: PathState, isBusy: Bool, lastSent: Instant = Instant(nanoseconds: 0)
  ) -> Due? {
    guard let started, deadline(path: path, isBusy: isBusy, lastSent: lastSent) <= now else { return nil }
    // Tokens only need to differ: the datagram's tag proves who answers.
    seed = (seed &+ now.nanoseconds) &* 0x9E37_79B9_7F4A_7C15 ^ seed >> 31 | 1
    if isSettled(path) {
      lastKeepAlive = now
      jitter = keepAlive * Int64(seed >> 32 % 1000) / 10_000
      return .keepAlive
    }
    isRequested = false
    outstanding.append(seed)
    if outstanding.count > 8 { outstanding.removeFirst() }
    round += 1
    if round < WireTimes.firstChallenges.count {
      next = max(started + WireTimes.firstChallenges[round], now + .milliseconds(50))
    } else if now - wentDown < WireTimes.probeFast {
      next = now + WireTimes.probeEvery
    } else {
      next = now + (isBusy ? WireTimes.probeBusy : WireTimes.probeSlow)
    }
    return .challenge(seed)
  }
}
