internal import SimpConnection
internal import SimpCore
internal import SimpIO

/// One sender and its recipient: posts what is due, notes what comes.
final class Pair: Sendable {
  /// The measured time. Before it is known nothing is measured.
  struct Window: Sendable {
    var begin = Instant.never
    var end = Instant.never

    func contains(_ instant: Instant) -> Bool { begin <= instant && instant < end }
  }

  /// What a pair has measured so far.
  struct Tally: Sendable {
    /// From due to taken, of messages that were due in the window.
    var latency = Histogram()
    /// From handed over to taken: what it looks like without the waiting for room.
    var uncorrected = Histogram()
    /// From due to handed over.
    var lag = Histogram()
    /// Messages handed over and taken in the window.
    var sentInWindow: UInt64 = 0
    var deliveredInWindow: UInt64 = 0
    var byTCP: UInt64 = 0
    /// Messages that the SDK marked as shown after later ones. The verdict goes by their numbers, not by this.
    var late: UInt64 = 0

    mutating func add(_ other: Tally) {
      latency.add(other.latency)
      uncorrected.add(other.uncorrected)
      lag.add(other.lag)
      sentInWindow += other.sentInWindow
      deliveredInWindow += other.deliveredInWindow
      byTCP += other.byTCP
      late += other.late
    }
  }

  private struct State {
    var check: ConversationCheck
    var tally = Tally()
    var window = Window()
    /// Messages under way to keep up; 0 when there is a schedule, or nothing is to be sent.
    var closedLoop = 0
    var failure: SIMPError?
  }

  let sender: SIMPConnection
  let recipient: SIMPConnection
  private let recipientName: String
  private let size: Int
  private let state: Locked<State>

  init(
    check: ConversationCheck, sender: SIMPConnection, recipient: SIMPConnection, recipientName: String, size: Int
  ) {
    self.sender = sender
    self.recipient = recipient
    self.recipientName = recipientName
    self.size = size
    state = Locked(State(check: check))
  }

  // MARK: - Sending

  func setWindow(_ window: Window) { state.withLock { $0.window = window } }

  /// Keeps `count` messages under way from now on; each that arrives is replaced at once.
  func beginClosedLoop(count: Int) {
    state.withLock { $0.closedLoop = count }
    topUp()
  }

  func endClosedLoop() { state.withLock { $0.closedLoop = 0 } }

  /// Posts what is missing in a closed loop. `recipient` does that as messages arrive; this is for the first ones, and
  /// for the time after the outbox was full.
  func topUp() { state.withLock { topUp(&$0) } }

  private func topUp(_ state: inout State) {
    guard state.closedLoop > 0 else { return }
    while state.check.underWay < state.closedLoop {
      guard post(due: Clock.now, &state) else { return }
    }
  }

  /// Posts one message that was due at `due`.
  ///
  /// - Returns: false when there is no room for it now.
  func post(due: Instant) -> Bool { state.withLock { post(due: due, &$0) } }

  private func post(due: Instant, _ state: inout State) -> Bool {
    let number = state.check.noteSent()
    let now = Clock.now
    let lag = UInt64(max(0, (now - due).nanoseconds))
    let payload = Payload(
      run: state.check.run, sender: state.check.sender, conversation: state.check.conversation, number: number,
      due: due, lag: lag)
    do throws(SIMPError) {
      try sender.post(payload.text(size: size), to: recipientName)
    } catch {
      state.check.takeBack()
      if error.code != .outboxFull { state.failure = state.failure ?? error }
      return false
    }
    if state.window.contains(due) {
      state.tally.sentInWindow += 1
      state.tally.lag.record(lag)
    }
    return true
  }

  // MARK: - Receiving

  /// Takes messages until the recipient's connection is over.
  func receive() async {
    var messages = recipient.messages.makeAsyncIterator()
    do throws(SIMPError) {
      while let message = try await messages.next() { note(message) }
    } catch {
      state.withLock { $0.failure = $0.failure ?? error }
    }
  }

  private func note(_ message: SIMPMessage) {
    let now = Clock.now
    state.withLock { state in
      guard let payload = state.check.noteArrived(message.text, from: message.from) else { return }
      if message.transport == .tcp { state.tally.byTCP += 1 }
      if message.isLate { state.tally.late += 1 }
      if state.window.contains(now) { state.tally.deliveredInWindow += 1 }
      if state.window.contains(payload.due) {
        let latency = UInt64(max(0, (now - payload.due).nanoseconds))
        state.tally.latency.record(latency)
        state.tally.uncorrected.record(latency - min(latency, payload.lag))
      }
      topUp(&state)
    }
  }

  // MARK: - Reading

  var verdict: Verdict { state.withLock { $0.check.result } }
  var underWay: UInt64 { state.withLock { $0.check.underWay } }
  var tally: Tally { state.withLock { $0.tally } }
  /// Why one of the two connections is over, if it is.
  var failure: SIMPError? { state.withLock { $0.failure } }
}
