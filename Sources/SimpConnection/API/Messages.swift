internal import SimpStore

extension SIMPConnection {
  /// The messages that come for the user of a connection, each once, those of one sender's device in order.
  ///
  /// It holds as many as the configuration allows and the server then waits, so a slow application loses nothing.
  /// A message is handed to exactly one of those who iterate. A task that is cancelled while it waits gets nil and
  /// takes nothing; the next one who asks gets what it would have got.
  ///
  /// With a store the messages that an earlier connection left there come first. Those it had handed over, and that were
  /// not acknowledged, are marked `isRedelivered`.
  ///
  /// The sequence ends when this program closes the connection, or lets go of it. It throws when the connection ends
  /// otherwise: refused, replaced, token expired. Interruptions do not end it. It also throws `storeFailed` when
  /// the store cannot note what is handed over: the message stays the next one.
  public struct Messages: AsyncSequence, Sendable {
    public typealias Failure = SIMPError

    let driver: Driver

    public func makeAsyncIterator() -> Iterator { Iterator(driver: driver) }

    public struct Iterator: AsyncIteratorProtocol {
      let driver: Driver

      public mutating func next(isolation actor: isolated (any Actor)?) async throws(SIMPError) -> SIMPMessage? {
        let waited = await driver.inbox.wait(isolation: actor) { [driver] inbox in
          inbox.take(acknowledges: driver.configuration.acknowledgement == .automatic)
        }
        guard case .value(let taken) = waited else { return nil }
        switch taken {
        case .message(let message):
          if message.acknowledgement == nil || driver.writer != nil { driver.schedule() }
          return message
        case .failed(let error):
          throw error
        case .end(let error):
          if let error { throw error }
          return nil
        }
      }

      public mutating func next() async throws(SIMPError) -> SIMPMessage? { try await next(isolation: nil) }
    }
  }

  /// The states a connection passes through, from the one it is in when this is asked for. Any number of sequences may
  /// be read. A reader that falls behind by more than 64 states misses the oldest. Ends after `closed`.
  public struct States: AsyncSequence, Sendable {
    public typealias Failure = Never

    let feed: StateFeed

    public func makeAsyncIterator() -> Iterator { Iterator(feed: feed) }

    public struct Iterator: AsyncIteratorProtocol {
      let feed: StateFeed

      public mutating func next(isolation actor: isolated (any Actor)?) async -> SIMPState? {
        let waited = await feed.states.wait(isolation: actor) { states -> SIMPState?? in
          if !states.waiting.isEmpty { return states.waiting.removeFirst() }
          return states.isFinished ? .some(nil) : nil
        }
        guard case .value(let state) = waited else { return nil }
        return state
      }

      public mutating func next() async -> SIMPState? { await next(isolation: nil) }
    }
  }
}

/// Messages that the application has not taken, and takes that the driver has not seen.
struct Inbox {
  enum Taken {
    case message(SIMPMessage)
    /// The store cannot note that the application gets one.
    case failed(SIMPError)
    case end(SIMPError?)
  }

  // BOUND: the room that the login announces; InboundMessages refuses more. With a store as much again.
  private var waiting: [SIMPMessage] = []
  private var head = 0
  private var taken: [TakenMessage] = []
  private var end: SIMPError??
  /// Of the store: told of each message before the application gets it.
  var handover: HandoverLog?

  var count: Int { waiting.count - head }

  mutating func append(_ messages: [SIMPMessage]) { waiting.append(contentsOf: messages) }

  mutating func take(acknowledges: Bool) -> Taken? {
    if let end {
      // Thrown once; whoever asks again is told that nothing comes any more.
      self.end = .some(nil)
      return .end(end)
    }
    guard head < waiting.count else { return nil }
    let message = waiting[head]
    do throws(StoreError) {
      try note(message.taken.storeId, isAcknowledged: acknowledges)
    } catch {
      return .failed(SIMPError(error))
    }
    head += 1
    if head == waiting.count {
      waiting.removeAll(keepingCapacity: true)
      head = 0
    } else if head >= 256, head > waiting.count / 2 {
      waiting.removeSubrange(..<head)
      head = 0
    }
    if acknowledges {
      taken.append(message.taken)
    } else if handover != nil {
      var handed = message.taken
      handed.isAcknowledged = false
      taken.append(handed)
    }
    return .message(message)
  }

  private func note(_ id: UInt64, isAcknowledged: Bool) throws(StoreError) {
    guard let handover else { return }
    if isAcknowledged { try handover.noteAcknowledged(id) } else { try handover.noteHandedOver(id) }
  }

  mutating func acknowledge(_ message: TakenMessage) {
    // That it cannot be noted means at worst that the message is shown again, marked.
    try? note(message.storeId, isAcknowledged: true)
    taken.append(message)
  }

  mutating func drainTaken() -> [TakenMessage] {
    defer { taken.removeAll(keepingCapacity: true) }
    return taken
  }

  /// Nothing comes any more. What was not taken is not shown either: nobody could be told that it was.
  mutating func finish(_ error: SIMPError?) {
    waiting = []
    head = 0
    end = .some(error)
  }
}

/// One reader's view of the states.
final class StateFeed: Sendable {
  struct States {
    // BOUND: 64.
    var waiting: [SIMPState] = []
    var isFinished = false
  }

  let states: Watched<States>

  init(first: SIMPState?) {
    var states = States()
    if let first { states.push(first) }
    self.states = Watched(states)
  }
}

extension StateFeed.States {
  mutating func push(_ state: SIMPState) {
    if waiting.count == 64 { waiting.removeFirst() }
    waiting.append(state)
    if case .closed = state { isFinished = true }
  }
}
