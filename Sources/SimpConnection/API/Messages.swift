extension SIMPConnection {
  /// The messages that come for the user of a connection, each once, those of one sender's device in order.
  ///
  /// It holds as many as the configuration allows and the server then waits, so a slow application loses nothing.
  /// A message is handed to exactly one of those who iterate. A task that is cancelled while it waits gets nil and
  /// takes nothing; the next one who asks gets what it would have got.
  ///
  /// The sequence ends when this program closes the connection, or lets go of it. It throws when the connection ends
  /// otherwise: refused, replaced, token expired. Interruptions do not end it.
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
          if message.acknowledgement == nil { driver.schedule() }
          return message
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
    case end(SIMPError?)
  }

  // BOUND: the room that the login announces; InboundMessages refuses more.
  private var waiting: [SIMPMessage] = []
  private var head = 0
  private var taken: [TakenMessage] = []
  private var end: SIMPError??

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
    head += 1
    if head == waiting.count {
      waiting.removeAll(keepingCapacity: true)
      head = 0
    } else if head >= 256, head > waiting.count / 2 {
      waiting.removeSubrange(..<head)
      head = 0
    }
    if acknowledges {
      taken.append(TakenMessage(from: message.from, device: message.device, order: message.order))
    }
    return .message(message)
  }

  mutating func acknowledge(_ message: TakenMessage) { taken.append(message) }

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
