internal import SimpConnection
internal import SimpIO
internal import SimpSupport

/// Sends lines and follows each to its final receipt.
///
/// Two tasks: one reads lines and posts them while there is room, the other awaits the receipts, oldest first.
final class SendRun: Sendable {
  // BOUND: lines under way, less than the outbox takes.
  private static let maximumLines = 8192
  private static let maximumBytes = 16 << 20
  // BOUND: lines that are stored and waited for, less than a connection follows.
  private static let maximumStored = 32_768

  private struct State {
    var ledger = SendLedger()
    var open: [SendLedger.Open<SIMPReceipt>] = []
    /// How many of `open` are done with; they are cut off in bulk.
    var head = 0
    var openBytes = 0
    var hasReadAll = false
    // BOUND: `maximumStored`.
    /// Stored, and to be delivered; the first `storedHead` of them are done with.
    var stored: [SendLedger.Open<SIMPReceipt>] = []
    var storedHead = 0
    /// The end of the connection, which ends everything.
    var end: SIMPError?
    var isOver = false

    var openCount: Int { open.count - head }
    var hasRoom: Bool { openCount < maximumLines && openBytes < maximumBytes }
  }

  private enum Stop { case settled, timedOut, other }

  private let connection: SIMPConnection
  private let user: String
  private let timeout: Duration
  private let awaitsDelivery: Bool
  private let showsEach: Bool
  private let explains: Bool
  private let showsSum: Bool
  private let showsProgress: Bool
  private let output = Output()
  private let state = Locked(State())
  private let room = Gate()
  private let work = Gate()
  private let lastLine = Gate()

  /// - Parameters:
  ///   - awaitsDelivery: a line that is stored is not done.
  ///   - explains: tells of each line what happened to it, and when.
  init(
    connection: SIMPConnection, user: String, timeout: Duration, awaitsDelivery: Bool, showsEach: Bool, explains: Bool,
    showsSum: Bool, showsProgress: Bool
  ) {
    self.connection = connection
    self.user = user
    self.timeout = timeout
    self.awaitsDelivery = awaitsDelivery
    self.showsEach = showsEach
    self.explains = explains
    self.showsSum = showsSum
    self.showsProgress = showsProgress
  }

  /// - Parameters:
  ///   - text: the one message to send; nil sends the lines of `input`.
  /// - Returns: the exit status, after a sentence about what was not delivered.
  func run(text: String?, input: StandardInput?) async -> Int32 {
    let began = ContinuousClock.now
    let stop = await withTaskGroup(of: Stop.self) { group in
      group.addTask {
        if let text { await self.post([.text(text)]) }
        while let lines = await input?.next(), await self.post(lines) {}
        self.state.withLock { $0.hasReadAll = true }
        self.work.open()
        self.lastLine.open()
        return .other
      }
      group.addTask { await self.settle() }
      group.addTask {
        await self.lastLine.wait()
        try? await Task.sleep(for: self.timeout)
        return Task.isCancelled ? .other : .timedOut
      }
      if showsProgress { group.addTask { await self.showProgress() } }
      var stop = Stop.other
      while stop == .other, let next = await group.next() { stop = next }
      group.cancelAll()
      return stop
    }
    if showsProgress { Log.standardError("\r\u{1B}[K") }
    return finish(stop, inputFailure: input?.failure, elapsed: ContinuousClock.now - began)
  }

  // MARK: - Sending

  /// - Returns: false when nothing more can be sent.
  @discardableResult
  private func post(_ lines: [LineSplitter.Line]) async -> Bool {
    for line in lines {
      while !state.withLock({ $0.hasRoom || $0.isOver }) {
        await room.wait()
        if Task.isCancelled { return false }
      }
      let number = state.withLock { $0.ledger.read() }
      switch line {
      case .text(let text):
        guard await post(text, line: number) else { return false }
      case .unusable(let reason):
        fail(number, reason)
      }
    }
    return true
  }

  private func post(_ text: String, line: Int) async -> Bool {
    while true {
      do throws(SIMPError) {
        let receipt = try connection.post(text, to: user)
        state.withLock { state in
          state.open.append(SendLedger.Open(line: line, bytes: text.utf8.count, receipt: receipt))
          state.openBytes += text.utf8.count
        }
        work.open()
        return true
      } catch {
        switch error.code {
        case .outboxFull:
          await room.wait()
          if Task.isCancelled {
            fail(line, "interrupted")
            return false
          }
        case .invalidText, .tooLarge:
          fail(line, error.message)
          return true
        default:
          fail(line, error.message)
          end(error)
          return false
        }
      }
    }
  }

  private func fail(_ line: Int, _ reason: String) {
    state.withLock { $0.ledger.noteFailed(line, reason) }
    if showsEach { Terminal.say("simp: line \(line) not sent: \(printable(reason))") }
  }

  // MARK: - Receipts

  private func settle() async -> Stop {
    while true {
      let (next, isOver) = state.withLock { state -> (SendLedger.Open<SIMPReceipt>?, Bool) in
        if state.head < state.open.count { return (state.open[state.head], false) }
        return (nil, state.hasReadAll || state.isOver)
      }
      guard let next else {
        if isOver {
          while await settleStored() {}
          if Task.isCancelled { return .other }
          return await settleEarlier()
        }
        await work.wait()
        if Task.isCancelled { return .other }
        continue
      }
      guard await settle(next) else { return Task.isCancelled ? .other : .settled }
      state.withLock { state in
        state.head += 1
        state.openBytes -= next.bytes
        if state.head >= 1024 {
          state.open.removeSubrange(..<state.head)
          state.head = 0
        }
      }
      room.open()
    }
  }

  /// What the store held from before is waited for as well, behind the lines.
  private func settleEarlier() async -> Stop {
    for receipt in connection.restored {
      _ = try? await receipt.delivered
      if Task.isCancelled { return .other }
    }
    return .settled
  }

  /// - Returns: false when the connection, or this task, is over before the line's end is known.
  private func settle(_ open: SendLedger.Open<SIMPReceipt>) async -> Bool {
    do throws(SIMPError) {
      note(try await open.receipt.delivered, of: open)
      return true
    } catch {
      switch error.code {
      case .stored where awaitsDelivery:
        // First all lines leave; then those that are stored are waited for, oldest first.
        let isFull = state.withLock { state in
          state.stored.append(open)
          return state.stored.count - state.storedHead >= Self.maximumStored
        }
        if isFull { _ = await settleStored() }
      case .stored: noteStored(open)
      case .rejected, .expired: fail(open.line, error.message)
      case .cancelled: return false
      default:
        end(error)
        return false
      }
      return true
    }
  }

  /// Waits for the oldest line that is stored.
  ///
  /// - Returns: false when there is none, or its end will not be known.
  private func settleStored() async -> Bool {
    let next = state.withLock { $0.storedHead < $0.stored.count ? $0.stored[$0.storedHead] : nil }
    guard let next else { return false }
    do throws(SIMPError) {
      try await next.receipt.reached(.delivered)
      note(try await next.receipt.delivered, of: next)
    } catch {
      switch error.code {
      case .cancelled: return false
      default: fail(next.line, error.message)
      }
    }
    state.withLock { state in
      state.storedHead += 1
      if state.storedHead >= 1024 {
        state.stored.removeSubrange(..<state.storedHead)
        state.storedHead = 0
      }
    }
    return true
  }

  private func note(_ delivery: SIMPDelivery, of open: SendLedger.Open<SIMPReceipt>) {
    state.withLock { $0.ledger.noteDelivered(byUDP: delivery.transport == .udp) }
    guard showsEach else { return }
    let attempts = delivery.attempts > 1 ? " in \(delivery.attempts) attempts" : ""
    output.line(
      "sent id=\(open.receipt.id) delivered \(DurationText.describe(delivery.elapsed)) "
        + "via \(delivery.transport.rawValue)\(attempts)\(steps(of: open.receipt))")
  }

  /// `: sent after 60.1 us, accepted after 20.5 ms, delivered after 41.3 ms`, with `--verbose`.
  private func steps(of receipt: SIMPReceipt) -> String {
    let steps = explains ? receipt.timeline.steps : []
    guard !steps.isEmpty else { return "" }
    return ": " + steps.map { "\($0.name) after \(DurationText.describe($0.after))" }.joined(separator: ", ")
  }

  private func noteStored(_ open: SendLedger.Open<SIMPReceipt>) {
    state.withLock { $0.ledger.noteStored() }
    if showsEach { output.line("sent id=\(open.receipt.id) stored: \(user) gets it later\(steps(of: open.receipt))") }
  }

  private func end(_ error: SIMPError) {
    state.withLock { state in
      state.end = state.end ?? error
      state.isOver = true
    }
    room.open()
    work.open()
  }

  // MARK: - The end

  private func finish(_ stop: Stop, inputFailure: String?, elapsed: Duration) -> Int32 {
    let (open, end) = state.withLock { state in
      (state.stored[state.storedHead...] + state.open[state.head...], state.end)
    }
    let reason =
      switch stop {
      case .timedOut: "no receipt within \(DurationText.describe(timeout)) after the last line" + away(open)
      case .settled: end?.message ?? "the connection is over"
      case .other: "interrupted"
      }
    // The oldest open line is what was waited for; those behind it may be done.
    for line in open {
      switch line.receipt.state {
      case .delivered, .read: state.withLock { $0.ledger.noteDelivered(byUDP: connection.statistics.path == .up) }
      case .stored where !awaitsDelivery: state.withLock { $0.ledger.noteStored() }
      default: state.withLock { $0.ledger.noteFailed(line.line, reason) }
      }
    }
    let ledger = state.withLock { $0.ledger }
    let earlier = connection.restored.count { !$0.state.isFinal }
    if earlier > 0 { Terminal.say("simp: not delivered and kept from before: \(earlier)") }
    if showsSum { output.line("\(ledger.summary) in \(DurationText.describe(elapsed))") }
    if let inputFailure { Terminal.say("simp: \(inputFailure)") }
    guard !ledger.isGood else { return output.status(inputFailure == nil ? ExitCode.ok : ExitCode.failed) }
    Terminal.say("simp: \(printable(ledger.complaint))")
    if let end {
      if let remedy = end.remedy { Terminal.say(remedy) }
      return end.exitCode
    }
    return stop == .timedOut ? ExitCode.timedOut : ExitCode.notDelivered
  }

  private func away(_ open: ArraySlice<SendLedger.Open<SIMPReceipt>>) -> String {
    open.contains { [.later, .stored].contains($0.receipt.state) } ? "; \(user) is not there, or has no room" : ""
  }

  private func showProgress() async -> Stop {
    while (try? await Task.sleep(for: .milliseconds(500))) != nil {
      let (ledger, open) = state.withLock { ($0.ledger, $0.openCount) }
      Log.standardError("\r\u{1B}[K\(ledger.delivered) of \(ledger.lines) lines delivered, \(open) under way")
    }
    return .other
  }
}

extension SIMPReceipt.State {
  fileprivate var isFinal: Bool {
    switch self {
    case .queued, .accepted, .later: false
    case .stored, .delivered, .read, .rejected, .expired: true
    }
  }
}
