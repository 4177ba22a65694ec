/// What became of each line that was to be sent.
struct SendLedger {
  /// A line without a final receipt.
  struct Open<Receipt: Sendable>: Sendable {
    var line: Int
    var bytes: Int
    var receipt: Receipt
  }

  /// Lines read so far; they count from 1.
  private(set) var lines = 0
  private(set) var delivered = 0
  private(set) var stored = 0
  private(set) var byUDP = 0
  private(set) var byTCP = 0
  /// Lines that will not arrive, or of which that is not known, by number; and why, for the first of them.
  private(set) var failed: [Int] = []
  private(set) var reason: String?

  mutating func read() -> Int {
    lines += 1
    return lines
  }

  mutating func noteDelivered(byUDP: Bool) {
    delivered += 1
    if byUDP { self.byUDP += 1 } else { byTCP += 1 }
  }

  mutating func noteStored() { stored += 1 }

  mutating func noteFailed(_ line: Int, _ reason: String) {
    failed.append(line)
    self.reason = self.reason ?? reason
  }

  /// Every line read has a final good receipt.
  var isGood: Bool { failed.isEmpty && delivered + stored == lines }

  /// `674 lines delivered, 670 by udp, 4 by tcp`.
  var summary: String {
    var parts = ["\(delivered) of \(lines) \(lines == 1 ? "line" : "lines") delivered"]
    if delivered > 0 { parts.append("\(byUDP) by udp, \(byTCP) by tcp") }
    if stored > 0 { parts.append("\(stored) stored for later") }
    return parts.joined(separator: ", ")
  }

  /// `not delivered: 3 of 674 lines (12, 14-15): the time is over`.
  var complaint: String {
    let which = lines == 1 ? "" : ": \(failed.count) of \(lines) lines (\(Self.ranges(failed)))"
    return "not delivered\(which)" + (reason.map { ": \($0)" } ?? "")
  }

  /// `1-3, 7, 9-12`; of more than 12 pieces the last ones are counted only.
  static func ranges(_ numbers: [Int]) -> String {
    var pieces: [ClosedRange<Int>] = []
    for number in numbers.sorted() {
      if let last = pieces.last, number <= last.upperBound + 1 {
        pieces[pieces.count - 1] = last.lowerBound...max(last.upperBound, number)
      } else {
        pieces.append(number...number)
      }
    }
    let shown = pieces.prefix(12).map { $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)-\($0.upperBound)" }
    let hidden = pieces.dropFirst(12).reduce(0) { $0 + $1.count }
    return shown.joined(separator: ", ") + (hidden > 0 ? " and \(hidden) more" : "")
  }
}
