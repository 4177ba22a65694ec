@testable import SimpCore

/// Receipts from their bytes to their effect: what decodes keeps the limits and encodes to the same, and a sender that
/// gets any receipts settles each datagram once.
enum ReceiptTarget {
  static let target = FuzzTarget(name: "receipt", maximumBytes: 160, seeds: { seeds }, run: run)

  private static func run(_ input: [UInt8]) throws {
    var script = InputReader(input)
    var sender = Sender(count: Int(script.choice(64)), pattern: script.byte())
    while !script.isAtEnd {
      let payload = script.bytes(Int(script.byte()))
      guard let receipt = try? Receipt(reading: payload.span) else { continue }
      try check(receipt)
      if let datagrams = receipt.datagrams { try sender.take(datagrams, delay: script.byte()) }
    }
    try sender.finish()
  }

  static func check(_ receipt: Receipt) throws {
    try checkShape(receipt)
    var bytes: [UInt8] = []
    receipt.append(to: &bytes)
    let again = try? Receipt(reading: bytes.span)
    try require(again == receipt, "\(receipt) came back as \(again.map { "\($0)" } ?? "nothing")")
  }

  /// What a receipt may hold, in which order.
  static func checkShape(_ receipt: Receipt) throws {
    try require(receipt.outcomes.count <= WireLimits.maximumOutcomes, "\(receipt.outcomes.count) outcomes")
    for outcome in receipt.outcomes {
      try require(outcome.orders.count <= WireLimits.orderWindow, "\(outcome.orders.count) ranges of orders")
      for (low, high) in zip(outcome.orders, outcome.orders.dropFirst()) {
        try require(low.upperBound < high.lowerBound, "orders \(low) and \(high) are not apart")
      }
    }
    if let datagrams = receipt.datagrams {
      try require(
        (1...WireLimits.maximumReceiptRanges).contains(datagrams.ranges.count)
          && datagrams.answered.count <= WireLimits.maximumAnsweredDatagrams, "more in a receipt than it may hold")
      for (high, low) in zip(datagrams.ranges, datagrams.ranges.dropFirst()) {
        try require(low.upperBound < high.lowerBound, "ranges \(high) and \(low) are not apart")
      }
    }
  }

  /// The datagrams that left, and what is known of each without `SentDatagrams`.
  private struct Sender {
    private enum Fate { case quiet, flying, receipted, lost }

    private var sent = SentDatagrams()
    private var now = Instant(nanoseconds: 1_000_000_000)
    private var fates: [Fate] = []
    private var flying = 0

    init(count: Int, pattern: UInt8) {
      for index in 0..<count {
        let isEliciting = pattern >> UInt8(index % 8) & 1 == 1
        let number = sent.takeNumber()
        var datagram = SentDatagram(eliciting: isEliciting, sent: now)
        datagram.number = number
        datagram.bytes = 100
        if isEliciting { datagram.messages = [MessageKey(conversation: 1, order: number + 1)] }
        sent.insert(datagram)
        fates.append(isEliciting ? .flying : .quiet)
        if isEliciting { flying += 1 }
        now = now + .microseconds(100)
      }
    }

    mutating func take(_ receipt: DatagramReceipt, delay: UInt8) throws {
      now = now + .milliseconds(Int64(delay) * Int64(delay & 7))
      let largest = receipt.ranges[0].upperBound
      let verdict: SentDatagrams.Verdict
      do throws(WireError) {
        verdict = try sent.receive(receipt, byUDP: delay & 1 == 0, now: now)
      } catch {
        return try require(largest >= sent.nextNumber, "refused, though \(largest) was sent")
      }
      try require(largest < sent.nextNumber, "taken, though \(largest) was never sent")
      for (isTaken, carried) in [(true, verdict.taken), (false, verdict.answered)] {
        for (key, number) in carried {
          try settle(number, key, as: .receipted)
          try require(receipt.ranges.contains { $0.contains(number) }, "\(number) is not in the receipt")
          try require(receipt.answered.contains(number) != isTaken, "\(number) is taken, or was only answered")
        }
      }
      for range in receipt.ranges {
        // What was lost is forgotten after a while: then a receipt for it changes nothing.
        for number in range { try require(fates[Int(number)] != .flying, "\(number) was overlooked") }
      }
      try takeLost(verdict)
    }

    /// What still flies times out until nothing is left to say.
    mutating func finish() throws {
      for _ in 0..<4 {
        guard let deadline = sent.deadline else { break }
        now = max(now, deadline)
        try takeLost(sent.expire(now: now).verdict)
      }
      sent.abandonFlight()
      try require(sent.bytesInFlight == 0 && !sent.hasElicitingInFlight, "something flies on")
    }

    private mutating func takeLost(_ verdict: SentDatagrams.Verdict) throws {
      for (key, number) in verdict.lost {
        try require(fates[Int(number)] == .flying, "\(number) is lost and did not fly")
        try settle(number, key, as: .lost)
      }
      try require(sent.bytesInFlight == 100 * flying, "\(sent.bytesInFlight) bytes for \(flying) datagrams")
      try require(sent.hasElicitingInFlight == (flying > 0), "in flight, or not")
    }

    private mutating func settle(_ number: UInt64, _ key: MessageKey, as fate: Fate) throws {
      let before = fates[Int(number)]
      try require(key.order == number + 1 && before != .quiet, "\(key) was not in \(number)")
      try require(before != .receipted, "\(number) is receipted twice")
      if before == .flying { flying -= 1 }
      fates[Int(number)] = fate
    }
  }

  private static var seeds: [[UInt8]] {
    func seed(_ count: UInt8, _ receipts: [Receipt]) -> [UInt8] {
      var bytes: [UInt8] = [count, 0xFF]
      for receipt in receipts {
        var payload: [UInt8] = []
        receipt.append(to: &payload)
        bytes += [UInt8(payload.count)] + payload + [10]
      }
      return bytes
    }
    let some = Receipt(datagrams: DatagramReceipt(ranges: [7...9, 3...5], delay: .milliseconds(1), answered: [4]))
    let rest = Receipt(datagrams: DatagramReceipt(ranges: [0...40], delay: .zero))
    let outcomes = Receipt(outcomes: [
      Outcome(.later, user: "bob", device: 3, orders: [1...5, 7...7], code: .noRoom, retryAfterMilliseconds: 100)
    ])
    return [seed(50, [some, rest]), seed(3, [outcomes, some]), seed(60, [rest, outcomes, rest])]
  }
}
