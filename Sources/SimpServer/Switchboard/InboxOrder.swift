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
    /// The message before it is on its way, too, and this one is not to get in if that one does not.
    var follows = false
    /// The device has it in hand, and this goes into the inbox only so that it stands there before what comes after it.
    var isCopy = false
  }

  private struct State {
    /// One above the last that went.
    var next: UInt64
    /// The last that went, and how many have no answer yet.
    var last: UInt64 = 0
    var unanswered = 0
    /// Those that wait, ascending.
    // BOUND: by the bytes that are on their way into inboxes, which the switchboard counts.
    var waiting: [Entering] = []

    var isIdle: Bool { waiting.isEmpty && unanswered == 0 }

    mutating func go(_ message: Entering) -> Entering {
      var message = message
      let order = message.relay.order
      message.follows = unanswered > 0 && last + 1 == order
      next = max(next, order + 1)
      last = order
      unanswered += 1
      return message
    }
  }

  private struct Wait {
    var conversation: Conversation
    var order: UInt64
    var end: Instant
  }

  // BOUND: `maximumConversations`, besides those with messages on their way; what is forgotten is told anew by the next
  // message's floor.
  private var states: [Conversation: State] = [:]
  /// Each of them once, those that were made first in front.
  private var age = Queue<Conversation>()
  // BOUND: as those that wait.
  /// All wait equally long, so that those in front are over first. Some have gone since.
  private var waits = Queue<Wait>()
  var conversations: Int { states.count }
  static let maximumConversations = 16_384
  /// Longer than a retransmission takes as a rule.
  static let patience = Interval.seconds(1)
  /// When `expire` is to be called; a wait may have ended otherwise by then.
  var deadline: Instant { waits.first?.end ?? .never }

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
    let index = state.waiting.lastIndex { $0.relay.order < order }.map { $0 + 1 } ?? 0
    state.waiting.insert(message, at: index)
    guard message.isCopy || order <= state.next || isPending(state.next..<order) else {
      waits.append(Wait(conversation: conversation, order: order, end: message.end))
      return []
    }
    // Nothing below it is missing.
    state.next = max(state.next, order)
    var going: [Entering] = []
    while going.count < state.waiting.count, state.waiting[going.count].relay.order <= state.next {
      going.append(state.go(state.waiting[going.count]))
    }
    state.waiting.removeFirst(going.count)
    return going
  }

  private mutating func keep(_ state: State, of conversation: Conversation) {
    if states.updateValue(state, forKey: conversation) == nil { age.append(conversation) }
    // A few tries: while many are in use, it is their messages that are bounded.
    var tries = 8
    while age.count > Self.maximumConversations, tries > 0, let oldest = age.popFirst() {
      tries -= 1
      if states[oldest]?.isIdle ?? false { states[oldest] = nil } else { age.append(oldest) }
    }
  }

  /// A message that went has its answer. If it did not get in, what follows waits for it.
  mutating func answered(_ relay: Relay, isIn: Bool) {
    let conversation = Conversation(relay)
    guard var state = states[conversation] else { return }
    state.unanswered -= 1
    if !isIn { state.next = min(state.next, relay.order) }
    states[conversation] = state
  }

  /// Those whose wait is over.
  mutating func expire(now: Instant) -> [Entering] {
    var over: [Entering] = []
    while let wait = waits.first, wait.end <= now {
      waits.removeFirst()
      // Another of the same order may have come, to wait longer.
      guard
        let index = states[wait.conversation]?.waiting.firstIndex(where: {
          $0.relay.order == wait.order && $0.end == wait.end
        }),
        let message = states[wait.conversation]?.waiting.remove(at: index)
      else { continue }
      over.append(message)
    }
    return over
  }
}
