internal import SimpIO

/// How a message reached its recipient.
public struct SIMPDelivery: Hashable, Sendable {
  /// From `post` or `send` to the final receipt.
  public let elapsed: Duration
  /// UDP when it went by UDP only, TCP when it went by TCP, be it besides UDP.
  public let transport: SIMPTransport
  /// How often it was sent in the session in which it was delivered.
  public let attempts: Int
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
    /// The server has it in its store. Final.
    case stored
    /// The recipient's application took it. Final.
    case delivered
    /// Final.
    case read
    /// The server refuses it for good. Final.
    case rejected
    /// Final.
    case expired
  }

  struct Progress {
    var id: UInt64 = 0
    var state = State.queued
    var outcome: Result<SIMPDelivery, SIMPError>?
  }

  private let progress: Watched<Progress>

  init(lock: Locked<Bool>) { progress = Watched(Progress(), lock: lock) }

  /// The message ID: with the sender's name it names the message for ever. 0 until the first login of the connection,
  /// which brings the device number in it.
  public var id: UInt64 { progress.read(\.id) }

  /// The state now.
  public var state: State { progress.read(\.state) }

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

  /// The recipient's application took the message; waits for it.
  ///
  /// - Throws: as `accepted`; `stored` when the server keeps the message for a recipient who is away.
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

  func identify(_ id: UInt64) { progress.change { $0.id = id } }

  /// Nothing that is final changes any more.
  func move(to state: State, outcome: Result<SIMPDelivery, SIMPError>? = nil) {
    progress.update { progress in
      guard progress.outcome == nil else { return }
      progress.state = state
      progress.outcome = outcome
    }
  }

  /// The connection is over before the end of the message is known.
  func abandon(_ error: SIMPError) {
    progress.update { progress in
      if progress.outcome == nil { progress.outcome = .failure(error) }
    }
  }
}
