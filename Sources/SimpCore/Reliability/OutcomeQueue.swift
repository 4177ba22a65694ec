/// Part (b) of receipts on its way out: what became of messages, gathered so that one packet tells much.
struct OutcomeQueue {
  private struct Subject: Hashable {
    var state: MessageState
    var user: String
    var device: UInt32
    var code: ErrorCode
    var retryAfterMilliseconds: UInt32
    var isKept = false
  }

  // BOUND: one range at most for each message in the windows that feed it.
  private var orders: [Subject: [ClosedRange<UInt64>]] = [:]
  private var subjects: [Subject] = []
  private var lastTaken: Instant?
  private var firstAdded = Instant.never
  private var onlyAccepted = true
  /// Messages spoken of, roughly: repeated ones count again.
  private var waiting = 0

  var isEmpty: Bool { subjects.isEmpty }

  /// When the next receipt is due: at once after idle, then every `outcomeInterval`, and at once when it would speak of
  /// many messages: a sender whose window is full of finished ones would stand still for the rest of the interval. ACCEPTED alone waits a moment for
  /// the DELIVERED that mostly follows it.
  var deadline: Instant? {
    guard !subjects.isEmpty else { return nil }
    if waiting >= WireTimes.outcomesAtOnce { return firstAdded }
    let ready = onlyAccepted ? firstAdded + .milliseconds(5) : firstAdded
    guard let lastTaken else { return ready }
    return max(ready, lastTaken + WireTimes.outcomeInterval)
  }

  mutating func add(
    _ state: MessageState, user: String, device: UInt32 = 0, order: UInt64, code: ErrorCode = .unspecified,
    retryAfterMilliseconds: UInt32 = 0, now: Instant
  ) {
    add(
      order...order,
      to: Subject(
        state: state, user: user, device: device, code: code, retryAfterMilliseconds: retryAfterMilliseconds),
      now: now)
  }

  /// An outcome that is told until it is said back, or says it back. What many of them name is gathered as well.
  mutating func add(kept state: MessageState, user: String, orders: ClosedRange<UInt64>, now: Instant) {
    let subject = Subject(
      state: state, user: user, device: 0, code: .unspecified, retryAfterMilliseconds: 0, isKept: true)
    add(orders, to: subject, now: now)
  }

  private mutating func add(_ added: ClosedRange<UInt64>, to subject: Subject, now: Instant) {
    if subjects.isEmpty {
      firstAdded = now
      onlyAccepted = true
    }
    if subject.state != .accepted { onlyAccepted = false }
    waiting += 1
    guard let last = orders[subject]?.last else {
      subjects.append(subject)
      orders[subject] = [added]
      return
    }
    let end = orders[subject, default: []].count - 1
    if last.contains(added.lowerBound), last.contains(added.upperBound) { return }
    // The order is a client's: nothing may be added to it.
    if added.lowerBound > last.upperBound, added.lowerBound - last.upperBound == 1 {
      orders[subject]?[end] = last.lowerBound...added.upperBound
    } else {
      orders[subject]?.append(added)
    }
  }

  /// Up to `limit` outcomes, the oldest subjects first; the rest stays.
  mutating func take(limit: Int = WireLimits.maximumOutcomes, now: Instant) -> [Outcome] {
    lastTaken = now
    waiting = 0
    let taken = subjects.prefix(limit)
    subjects.removeFirst(taken.count)
    firstAdded = now
    return taken.map { subject in
      Outcome(
        subject.state, user: subject.user, device: subject.device,
        orders: Self.merge(orders.removeValue(forKey: subject) ?? []), code: subject.code,
        retryAfterMilliseconds: subject.retryAfterMilliseconds, isKept: subject.isKept)
    }
  }

  private static func merge(_ ranges: [ClosedRange<UInt64>]) -> [ClosedRange<UInt64>] {
    var merged: [ClosedRange<UInt64>] = []
    for range in ranges.sorted(by: { $0.lowerBound < $1.lowerBound }) {
      if let last = merged.last,
        range.lowerBound <= last.upperBound || range.lowerBound - last.upperBound == 1
      {
        merged[merged.count - 1] = last.lowerBound...max(last.upperBound, range.upperBound)
      } else {
        merged.append(range)
      }
    }
    return merged
  }
}
