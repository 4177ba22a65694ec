internal import SimpCore
internal import SimpIO

/// How a message reached its recipient.
public struct SIMPDelivery: Hashable, Sendable {
  /// From `post` or `send` to the final receipt.
  public let elapsed: Duration
  /// UDP when it went by UDP only in the session in which it was delivered, TCP when it went by TCP, be it besides UDP.
  public let transport: SIMPTransport
  /// How often it was sent, over all sessions.
  public let attempts: Int
}

/// When what happened to a message happened, each counted from the `post` or `send` that took it. Nil: it did not
/// happen, or not yet.
public struct SIMPTimeline: Hashable, Sendable {
  /// It left for the first time. Known with the first answer of a server.
  public internal(set) var sent: Duration?
  /// A server had it in memory.
  public internal(set) var accepted: Duration?
  /// A server refused it for now, for the first time.
  public internal(set) var later: Duration?
  /// A server had it in its store.
  public internal(set) var stored: Duration?
  /// The recipient's application had taken it.
  public internal(set) var delivered: Duration?
  /// Its recipient had read it.
  public internal(set) var read: Duration?
  /// It was given up: rejected, or expired.
  public internal(set) var failed: Duration?

  /// All of it in the order of time: `sent 0.06 ms, accepted 20.5 ms, delivered 41.3 ms`, by their names here.
  public var steps: [(name: String, after: Duration)] {
    let all = [
      ("sent", sent), ("later", later), ("accepted", accepted), ("stored", stored), ("delivered", delivered),
      ("read", read), ("failed", failed),
    ]
    return all.compactMap { name, after in after.map { (name, $0) } }.sorted { $0.1 < $1.1 }
  }
}

/// What is known about one message that was sent. From any thread; keeping it is not needed for the message to arrive.
public final class SIMPReceipt: Sendable {
  /// The states a message passes through. Different words for different facts.
  public enum State: String, Hashable, Sendable {
    /// It is in the outbox; no server is known to have it.
    case queued
    /// A server has it in memory.
    case accepted
    /// Refused for now (the recipient is not there, or has no room): it stays in the outbox and is offered again.
    case later
    /// The server has it in its store, and answers for it. The outbox is done with it; `delivered` may follow.
    case stored
    /// The recipient's application took it.
    case delivered
    /// Final.
    case read
    /// The server refuses it for good. Final.
    case rejected
    /// Nobody took it in time. Final.
    case expired

    /// How far a message is; nil for what went wrong.
    fileprivate var step: Int? {
      switch self {
      case .queued, .later: 0
      case .accepted: 1
      case .stored: 2
      case .delivered: 3
      case .read: 4
      case .rejected, .expired: nil
      }
    }
  }

  struct Progress {
    var id: UInt64 = 0
    var state = State.queued
    /// It is in the store.
    var isKept = false
    /// How the outbox was done with it.
    var outcome: Result<SIMPDelivery, SIMPError>?
    /// It is stored, and nothing more will be told of it.
    var isLast = false
    var times = Times()
  }

  /// Times since the message was taken, small: many receipts are kept.
  struct Times {
    var sent: Interval?
    var accepted: Interval?
    var later: Interval?
    /// When it was stored and delivered, if that was not the last.
    var stored: Interval?
    var delivered: Interval?
    /// When the last state came, if the outbox is done with the message.
    var end: Interval?
  }

  private let progress: Watched<Progress>

  init(lock: Locked<Bool>) { progress = Watched(Progress(), lock: lock) }

  /// The message ID: with the sender's name it names the message for ever. 0 until the first login of the connection,
  /// which brings the device number in it.
  public var id: UInt64 { progress.read(\.id) }

  /// The state now.
  public var state: State { progress.read(\.state) }

  /// What happened to the message so far, and when.
  public var timeline: SIMPTimeline {
    let (times, state) = progress.read { ($0.times, $0.state) }
    var timeline = SIMPTimeline()
    timeline.sent = times.sent.map { Duration($0) }
    timeline.accepted = times.accepted.map { Duration($0) }
    timeline.later = times.later.map { Duration($0) }
    timeline.stored = times.stored.map { Duration($0) }
    timeline.delivered = times.delivered.map { Duration($0) }
    let end = times.end.map { Duration($0) }
    switch state {
    case .stored: timeline.stored = end
    case .delivered: timeline.delivered = end
    case .read: timeline.read = end
    case .rejected, .expired: timeline.failed = end
    case .queued, .accepted, .later: break
    }
    return timeline
  }

  /// Waits until the message is in the store: from then on it survives this process, and leaves. Without a store that
  /// never comes; wait for `accepted` then.
  ///
  /// - Throws: `storeFailed`, `outboxFull`: it was not taken. Why the connection ended; `cancelled`.
  public func kept() async throws(SIMPError) {
    let waited = await progress.wait { progress -> Result<Void, SIMPError>? in
      if progress.isKept { return .success(()) }
      if case .failure(let error) = progress.outcome { return .failure(error) }
      return nil
    }
    try waited.result("for the message to be stored").get()
  }

  /// Waits until a server has the message, or refused it for now (`state` says which).
  ///
  /// - Throws: `rejected`, `expired`; `closed`, or why the connection ended, when it did so first; `cancelled`.
  public func accepted() async throws(SIMPError) {
    let waited = await progress.wait { progress -> Result<Void, SIMPError>? in
      if case .failure(let error) = progress.outcome { return .failure(error) }
      return progress.state == .queued ? nil : .success(())
    }
    try waited.result("for the message to be accepted").get()
  }

  /// Waits until the message has come as far as `state`, or further. Unlike `delivered` this goes on behind STORED, for
  /// as long as the connection is there: what its recipient takes later is told then.
  ///
  /// - Parameter state: `accepted`, `stored` or `delivered`; a message that is delivered at once was never stored.
  /// - Throws: as `accepted`; `stored` when the message is stored and more will not be told of it: the server does not,
  ///   the connection is closed, or 65 536 later messages were stored.
  public func reached(_ state: State) async throws(SIMPError) {
    precondition([.accepted, .stored, .delivered].contains(state), "\(state) is not to be waited for")
    let waited = await progress.wait { progress -> Result<Void, SIMPError>? in
      if case .failure(let error) = progress.outcome { return .failure(error) }
      if let step = progress.state.step, let wanted = state.step, step >= wanted { return .success(()) }
      guard progress.isLast else { return nil }
      return .failure(SIMPError(.stored, "the message is stored, and what becomes of it is not told any more"))
    }
    try waited.result("for the message to be \(state)").get()
  }

  /// The recipient's application took the message; waits for it.
  ///
  /// - Throws: as `accepted`; `stored` when the server keeps the message for a recipient who is away: `reached` waits
  ///   for that as well.
  public var delivered: SIMPDelivery {
    get async throws(SIMPError) {
      let waited = await progress.wait { progress in
        progress.state == .stored
          ? .failure(SIMPError(.stored, "the message is stored, and delivered when its recipient comes"))
          : progress.outcome
      }
      return try waited.result("for the message to be delivered").get()
    }
  }

  func keep() { progress.update { $0.isKept = true } }

  func identify(_ id: UInt64) { progress.change { $0.id = id } }

  /// What the outbox is done with changes by `follow` alone.
  ///
  /// - Parameters: times since the message was taken; `sent` nil: it has not left yet.
  func move(to state: State, sent: Interval?, after: Interval) {
    progress.update { progress in
      guard progress.outcome == nil else { return }
      progress.state = state
      progress.times.sent = progress.times.sent ?? sent
      switch state {
      case .accepted: progress.times.accepted = progress.times.accepted ?? after
      case .later: progress.times.later = progress.times.later ?? after
      default: break
      }
    }
  }

  /// The outbox is done with the message.
  ///
  /// - Parameter isLast: nothing would be told of it behind STORED.
  func finish(
    _ state: State, outcome: Result<SIMPDelivery, SIMPError>, isLast: Bool, sent: Interval?, after: Interval
  ) {
    progress.update { progress in
      guard progress.outcome == nil else { return }
      progress.state = state
      progress.outcome = outcome
      progress.isLast = isLast
      progress.times.sent = progress.times.sent ?? sent
      progress.times.end = after
    }
  }

  /// What became of the message behind STORED; of what was said before nothing is taken back.
  func follow(_ state: State, after: Interval) {
    progress.update { progress in
      guard case .success(let delivery) = progress.outcome else { return }
      switch (progress.state, state) {
      case (.stored, _): progress.times.stored = progress.times.end
      case (.delivered, .read): progress.times.delivered = progress.times.end
      default: return
      }
      progress.state = state
      progress.times.end = after
      progress.outcome =
        state == .expired
        ? .failure(SIMPError(.expired, "the message's time ran out"))
        : .success(
          SIMPDelivery(elapsed: Duration(after), transport: delivery.transport, attempts: delivery.attempts))
    }
  }

  func endFollowing() { progress.update { $0.isLast = true } }

  /// More may be told of it.
  var mayBeFollowed: Bool {
    progress.read { [.stored, .delivered].contains($0.state) && !$0.isLast }
  }

  /// The connection is over before the end of the message is known.
  func abandon(_ error: SIMPError) {
    progress.update { progress in
      if progress.outcome == nil { progress.outcome = .failure(error) }
    }
  }
}
