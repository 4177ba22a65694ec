internal import SimpSupport

/// What a history says about the messages in it.
struct HistoryVerdict: Hashable, Sendable {
  /// What may be wrong with a message. Each has its own promise behind it.
  enum Fault: String, Hashable, Sendable, CaseIterable {
    /// The library took it, the run ended, and no application was shown it, or not again although it never acknowledged
    /// it; nor was its sender told that it was given up.
    case lost
    /// At the end of the time for that its sender was still waiting for a final receipt, and its recipient for it.
    case stuck
    /// Shown twice in one life of a program, or after it was acknowledged, or again without the mark that says so.
    case doubled
    /// Shown after a later one of the same device and conversation, or marked as late.
    case outOfOrder = "out of order"
    /// What was shown is not as any message was sent.
    case corrupt
    /// Shown, and never sent.
    case invented
    /// Shown under another sender's name, or to somebody it was not for.
    case misdirected
    /// A receipt said what was not so.
    case lied = "receipts that lied"
  }

  var counts: [Fault: UInt64] = [:]
  /// The first few of each, in words.
  var witnesses: [Fault: [String]] = [:]

  /// Messages about to be sent, taken by the library, and shown to an application at least once.
  var offered: UInt64 = 0
  var sent: UInt64 = 0
  var delivered: UInt64 = 0
  /// Showings again of what an earlier life had and did not acknowledge: they are right.
  var redelivered: UInt64 = 0
  /// Showings to a program without a store of what an earlier one, also without, was shown, while its sender had not yet
  /// heard of that. Nobody could know.
  var shownToAnother: UInt64 = 0
  /// Taken and neither shown nor answered, in a run that ended before it could tell, or whose sender without a store
  /// ended.
  var unfinished: UInt64 = 0
  /// For how many messages a state was seen.
  var receipts: [ReceiptState: UInt64] = [:]
  /// How often each fault of the surroundings was made.
  var faults: [String: UInt64] = [:]
  /// From taken to shown, the longest, in microseconds, and which.
  var longest: UInt64 = 0
  var longestMessage: MessageName?
  /// Lines that were no events.
  var unreadable: UInt64 = 0
  /// How the run ended; nil when its history stops in the middle.
  var finish: HistoryEvent.Finish?

  static let witnessLimit = 5

  mutating func add(_ fault: Fault, _ witness: @autoclosure () -> String) {
    counts[fault, default: 0] += 1
    if witnesses[fault, default: []].count < Self.witnessLimit { witnesses[fault, default: []].append(witness()) }
  }

  subscript(fault: Fault) -> UInt64 { counts[fault] ?? 0 }

  var isGood: Bool { counts.isEmpty }

  /// `good`, or what is wrong: `2 lost, 1 doubled`.
  var words: String {
    let bad = Fault.allCases.filter { self[$0] > 0 }.map { "\(self[$0]) \($0.rawValue)" }
    guard bad.isEmpty else { return bad.joined(separator: ", ") }
    let good = "good: none lost, doubled or out of order, no receipt lied"
    return unfinished == 0 ? good : good + "; \(unfinished) unfinished, of which nothing is known"
  }

  /// The verdict, and its witnesses, for people.
  var report: String {
    var lines: [String] = []
    func line(_ name: String, _ text: String) {
      lines.append(name + String(repeating: " ", count: max(1, 12 - name.count)) + text)
    }
    line(
      "messages",
      "\(sent) sent, \(delivered) delivered, \(redelivered) shown again unacknowledged, \(shownToAnother) to another program"
    )
    line("receipts", ReceiptState.allCases.map { "\($0.rawValue) \(receipts[$0] ?? 0)" }.joined(separator: ", "))
    if let message = longestMessage {
      line("longest", "\(DurationText.describe(.microseconds(Int64(clamping: longest)))) for \(message.words)")
    }
    let made = faults.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
    line("faults", made.isEmpty ? "none" : made.joined(separator: ", "))
    if unreadable > 0 { line("history", "\(unreadable) lines are no events") }
    if finish == nil { line("end", "the history stops in the middle: what is open is not counted as lost") }
    if finish == .timeout { line("end", "the time to drain was over before all was answered") }
    for fault in Fault.allCases where self[fault] > 0 {
      for (index, witness) in (witnesses[fault] ?? []).enumerated() {
        line(index == 0 ? fault.rawValue : "", printable(witness))
      }
      let more = self[fault] - UInt64(witnesses[fault]?.count ?? 0)
      if more > 0 { line("", "and \(more) more") }
    }
    line("verdict", words)
    return lines.joined(separator: "\n")
  }

  var members: [JSONValue.Member] {
    var members: [JSONValue.Member] = [
      .init("verdict", .string(isGood ? "good" : "bad")), .init("sent", .unsigned(sent)),
      .init("delivered", .unsigned(delivered)), .init("redelivered", .unsigned(redelivered)),
      .init("shown_to_another", .unsigned(shownToAnother)), .init("unfinished", .unsigned(unfinished)),
    ]
    let names: [Fault: String] = [.outOfOrder: "out_of_order", .lied: "receipts_lied"]
    members += Fault.allCases.map { .init(names[$0] ?? $0.rawValue, .unsigned(self[$0])) }
    members += [
      .init("longest_ms", .number(Double(longest) / 1000, digits: 3)),
      .init("receipts", .object(ReceiptState.allCases.map { .init($0.rawValue, .unsigned(receipts[$0] ?? 0)) })),
      .init("faults", .object(faults.sorted { $0.key < $1.key }.map { .init($0.key, .unsigned($0.value)) })),
      .init("finish", finish.map { .string($0.rawValue) } ?? .null),
      .init(
        "witnesses",
        .array(Fault.allCases.flatMap { fault in (witnesses[fault] ?? []).map { .string("\(fault.rawValue): \($0)") } })
      ),
    ]
    return members
  }
}
