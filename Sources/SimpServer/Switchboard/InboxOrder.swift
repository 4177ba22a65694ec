internal import SimpCore

/// Sees to it that messages enter an inbox in the order of their conversation: one that overtook others waits for them.
///
/// A device that catches up has room for so many messages. Were it handed those that overtook first, they would fill its
/// room, could not be shown, and what they wait for could not be read.
struct InboxOrder {
  struct Conversation: Hashable {
    var from: String
    var device: UInt32
    var to: String

    init(_ relay: Relay) {
      from = relay.from
      device = relay.device
      to = relay.to
    }
  }

  /// A message on its way into an inbox.
  struct Entering {
    var relay: Relay
    /// The recipient's session; nil: nobody knows of one.
    var session: UInt64?
    var knownDead: UInt64
    /// How long it waits for what it overtook.
    var end: Instant
  }

  private struct State {
    /// One above the last that went.
    var next: UInt64
    /// Those that wait, ascending.
    // BOUND: by the bytes that are on their way into inboxes, which the switchboard counts.
    var waiting: [Entering] = []
  }

  // BOUND: `maximumConversations`; what is forgotten is told anew by the next message's floor.
  private var states: [Conversation: State] = [:]
  static let maximumConversations = 16_384
  /// Longer than a retransmission takes as a rule.
  static let patience = Interval.seconds(1)
  /// The least time at which a wait is over, never below the true one; `expire` brings it up to date.
  private(set) var deadline = Instant.never

  /// Takes a message in.
  ///
  /// - Parameter isPending: whether the recipient's session holds all orders of a range that is not empty.
  /// - Returns: those that go now, in their order; none if it waits.
  mutating func enter(_ message: Entering, isPending: (Range<UInt64>) -> Bool) -> [Entering] {
    let conversation = Conversation(message.relay)
    let order = message.relay.order
    var state = states[conversation] ?? State(next: message.relay.floor)
    state.next = max(state.next, message.relay.floor)
    defer { keep(state, of: conversation) }
    guard order <= state.next || isPending(state.next..<order) else {
      let index = state.waiting.firstIndex { $0.relay.order >= order } ?? state.waiting.count
      state.waiting.insert(message, at: index)
      deadline = min(deadline, message.end)
      return []
    }
    state.next = max(state.next, order + 1)
    var going = [message]
    while let first = state.waiting.first, first.relay.order <= state.next {
      going.append(state.waiting.removeFirst())
      state.next = max(state.next, first.relay.order + 1)
    }
    return going
  }

  private mutating func keep(_ state: State, of conversation: Conversation) {
    if states[conversation] == nil, states.count >= Self.maximumConversations,
      let idle = states.first(where: { $0.value.waiting.isEmpty })
    {
      states[idle.key] = nil
    }
    states[conversation] = state
  }

  /// A message that went did not get in: what follows waits for it.
  mutating func fellOut(_ relay: Relay) {
    let conversation = Conversation(relay)
    guard var state = states[conversation] else { return }
    state.next = min(state.next, relay.order)
    states[conversation] = state
  }

  /// Those whose wait is over.
  mutating func expire(now: Instant) -> [Entering] {
    guard deadline <= now else { return [] }
    deadline = .never
    var over: [Entering] = []
    for (conversation, state) in states where !state.waiting.isEmpty {
      over += state.waiting.filter { $0.end <= now }
      let left = state.waiting.filter { $0.end > now }
      states[conversation]?.waiting = left
      for message in left { deadline = min(deadline, message.end) }
    }
    return over
  }
}
