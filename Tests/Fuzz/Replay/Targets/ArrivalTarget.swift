@testable import SimpCore

/// What a receiver of datagrams keeps and says: the replay window, the ranges of its receipts, and the outcomes that it
/// gathers, each against plain sets.
enum ArrivalTarget {
  static let target = FuzzTarget(name: "arrival", maximumBytes: 96, seeds: { seeds }, run: run)

  private static func run(_ input: [UInt8]) throws {
    var script = InputReader(input)
    if script.byte() & 1 == 0 { try receiveDatagrams(&script) } else { try gatherOutcomes(&script) }
  }

  // MARK: - Datagrams

  private static func receiveDatagrams(_ script: inout InputReader) throws {
    var replay = ReplayWindow()
    var received = ReceivedDatagrams()
    // What came, and whether it was refused.
    var seen: [UInt64: Bool] = [:]
    var highest: UInt64?
    var now = Instant(nanoseconds: 1_000_000_000)

    func receive(_ number: UInt64, _ kind: UInt8) throws {
      let isRefused = replay.refuses(number)
      let isNew = replay.insert(number)
      try require(isNew != isRefused, "\(number) is refused: \(isRefused), and new: \(isNew)")
      let isTooOld = highest.map { number < $0 && $0 - number >= ReplayWindow.width } ?? false
      try require(isNew == (seen[number] == nil && !isTooOld), "\(number) under \(highest ?? 0): new \(isNew)")
      guard isNew else { return }
      seen[number] = kind & 8 != 0
      highest = max(highest ?? 0, number)
      received.insert(number, eliciting: kind & 2 == 0, wanted: kind & 4 != 0, answered: kind & 8 != 0, now: now)
      try require(received.ranges.count <= WireLimits.maximumReceiptRanges, "\(received.ranges.count) ranges")
    }

    while !script.isAtEnd, seen.count < 160 {
      now = now + .milliseconds(1)
      let kind = script.byte()
      guard kind < 240 else {
        if let receipt = received.takeReceipt(now: now) { try check(receipt, seen) }
        continue
      }
      let number = kind & 1 == 0 ? (highest ?? 0) &+ script.number() % 8 : script.number()
      // Many at once, for the limits of what is kept: of every number, or of each second one.
      let count = kind < 208 ? 1 : UInt64(script.choice(96))
      for step in 0..<count { try receive(number &+ step * (kind & 16 == 0 ? 1 : 2), kind) }
    }
    guard let last = received.takeReceipt(now: now) else { return }
    try check(last, seen)
    // The bytes of one say what those of all would, and cost as much as all the rest.
    try ReceiptTarget.check(Receipt(datagrams: last))
  }

  private static func check(_ receipt: DatagramReceipt, _ seen: [UInt64: Bool]) throws {
    try ReceiptTarget.checkShape(Receipt(datagrams: receipt))
    var (told, refused) = (0, 0)
    for (number, isRefused) in seen where receipt.ranges.contains(where: { $0.contains(number) }) {
      told += 1
      if isRefused { refused += 1 }
      try require(receipt.answered.contains(number) || !isRefused, "\(number) is said to be taken")
    }
    try require(receipt.answered.count == refused, "\(receipt.answered) of \(refused) that were refused")
    let inRanges = receipt.ranges.reduce(0) { $0 + ($1.upperBound - $1.lowerBound + 1) }
    try require(inRanges == UInt64(told), "\(inRanges) numbers in \(receipt.ranges), \(told) of them came")
  }

  // MARK: - Outcomes

  private struct Line: Hashable {
    var state: MessageState
    var user: String
    var device: UInt32
    var order: UInt64
  }

  private static func gatherOutcomes(_ script: inout InputReader) throws {
    var queue = OutcomeQueue()
    var waiting: Set<Line> = []
    var now = Instant(nanoseconds: 1_000_000_000)
    let states: [MessageState] = [.accepted, .later, .delivered, .rejected]

    while !script.isAtEnd {
      now = now + .milliseconds(1)
      let kind = script.byte()
      if kind >= 240 {
        try take(limit: 1 + Int(kind & 3), from: &queue, &waiting, now: now)
      } else {
        let line = Line(
          state: states[Int(kind & 3)], user: kind & 4 == 0 ? "bob" : "carol", device: UInt32(kind >> 3 & 1),
          order: script.number())
        waiting.insert(line)
        queue.add(line.state, user: line.user, device: line.device, order: line.order, now: now)
      }
    }
    while !queue.isEmpty { try take(limit: WireLimits.maximumOutcomes, from: &queue, &waiting, now: now) }
    try require(waiting.isEmpty, "never told: \(waiting)")
  }

  private static func take(
    limit: Int, from queue: inout OutcomeQueue, _ waiting: inout Set<Line>, now: Instant
  ) throws {
    let outcomes = queue.take(limit: limit, now: now)
    try require(outcomes.count <= limit, "\(outcomes.count) outcomes where \(limit) were asked for")
    try ReceiptTarget.check(Receipt(outcomes: outcomes))
    for outcome in outcomes {
      let lines = waiting.filter { line in
        line.state == outcome.state && line.user == outcome.user && line.device == outcome.device
          && outcome.orders.contains { $0.contains(line.order) }
      }
      let told = outcome.orders.reduce(0) { $0 + Int($1.upperBound - $1.lowerBound) + 1 }
      try require(told == lines.count, "told \(outcome.orders), which is not what became of \(lines)")
      waiting.subtract(lines)
    }
  }

  private static var seeds: [[UInt8]] {
    [
      [0, 0, 0, 0, 1, 0, 1, 0, 3, 255, 8, 5, 1, 4, 5, 200, 255, 1, 190], [0, 9, 9, 9, 7, 9, 5, 9, 3, 9, 1, 250],
      [0, 232, 1, 40, 232, 2, 20, 255, 0, 1, 0], [0, 210, 1, 40, 9, 3, 9, 7, 255], [0, 218, 1, 60, 8, 1, 9, 4],
      [0, 1, 0xD9, 255, 1, 0xDB, 0, 255], [1, 0, 1, 0, 2, 0, 5, 4, 7, 2, 9, 255, 240, 12, 8, 3, 0xDC, 127],
    ]
  }
}
