/// What arrived on one path and is to be receipted: part (a) of receipts, and when it leaves.
struct ReceivedDatagrams {
  // BOUND: at most `maximumReceiptRanges` ranges; the lowest are forgotten, their messages are sent again and found
  // to be duplicates.
  private(set) var ranges: [ClosedRange<UInt64>] = []
  // BOUND: at most `maximumAnsweredDatagrams` numbers. The lowest is forgotten together with all numbers up to it: a
  // receipt must not say taken of what was refused.
  private var answered: [UInt64] = []
  private var largestArrival = Instant(nanoseconds: 0)
  /// Datagrams that want a receipt and have none.
  private(set) var unreceipted = 0
  private var oldestUnreceipted: Instant?
  private(set) var wantedNow = false
  private(set) var lastReceipt: Instant?

  /// When a receipt is due at the latest, nil when nothing waits for one.
  var deadline: Instant? {
    guard unreceipted > 0, let oldestUnreceipted else { return nil }
    if wantedNow || unreceipted >= WireTimes.receiptEveryDatagrams { return oldestUnreceipted }
    return oldestUnreceipted + WireTimes.receiptDelay
  }

  /// Something arrived since the last receipt: it rides along with whatever leaves.
  var hasNews: Bool { unreceipted > 0 }

  /// Bytes that the packet of the next receipt takes at most.
  var receiptBytesAtMost: Int { WireLimits.headerBytes + 40 + 20 * ranges.count + 10 * answered.count }

  /// Notes an authentic datagram that came for the first time.
  ///
  /// - Parameters:
  ///   - eliciting: it holds something that wants a receipt.
  ///   - wanted: it wants the receipt now.
  ///   - answered: not all of its messages were taken.
  mutating func insert(_ number: UInt64, eliciting: Bool, wanted: Bool, answered isAnswered: Bool, now: Instant) {
    let gap = add(number)
    if ranges.first?.upperBound == number { largestArrival = now }
    // What found no place in the ranges is not spoken of.
    if isAnswered, let last = ranges.last, number >= last.lowerBound {
      answered.append(number)
      if answered.count > WireLimits.maximumAnsweredDatagrams, let lowest = answered.min() {
        answered.removeAll { $0 == lowest }
        forget(upTo: lowest)
      }
    }
    guard eliciting else { return }
    unreceipted += 1
    if oldestUnreceipted == nil { oldestUnreceipted = now }
    if wanted || gap || isCloseAboveAGap(number) { wantedNow = true }
  }

  /// Whether the number is one of the three from which the sender learns that what is missing below them is lost. A
  /// receipt of one of them may get lost too, and the next would come a tenth of a second later.
  private func isCloseAboveAGap(_ number: UInt64) -> Bool {
    guard ranges.count > 1, let top = ranges.first else { return false }
    return top.contains(number) && number - top.lowerBound < 3
  }

  /// The receipt to send now; what waited for it waits no more. Nil when nothing ever arrived.
  mutating func takeReceipt(now: Instant) -> DatagramReceipt? {
    guard !ranges.isEmpty else { return nil }
    unreceipted = 0
    oldestUnreceipted = nil
    wantedNow = false
    lastReceipt = now
    return DatagramReceipt(ranges: ranges, delay: max(.zero, now - largestArrival), answered: answered)
  }

  /// Adds a number.
  ///
  /// - Returns: whether it tore open a gap, or closed part of one: the sender should hear of it at once.
  private mutating func add(_ number: UInt64) -> Bool {
    guard let first = ranges.first else {
      ranges = [number...number]
      return false
    }
    // The number is the peer's: nothing may be added to one that could be the highest of all.
    if number > first.upperBound, number - first.upperBound == 1 {
      ranges[0] = first.lowerBound...number
      return false
    }
    if number > first.upperBound {
      ranges.insert(number...number, at: 0)
      if ranges.count > WireLimits.maximumReceiptRanges { dropLowest() }
      return true
    }
    insertBelow(number)
    return true
  }

  /// At once with those of it that were refused: a lower number may find room here later, and `answered` would name what
  /// no range does.
  private mutating func dropLowest() {
    ranges.removeLast()
    guard let last = ranges.last else { return }
    answered.removeAll { $0 < last.lowerBound }
  }

  private mutating func forget(upTo number: UInt64) {
    ranges.removeAll { $0.upperBound <= number }
    if let last = ranges.last, last.lowerBound <= number { ranges[ranges.count - 1] = number + 1...last.upperBound }
  }

  private mutating func insertBelow(_ number: UInt64) {
    let index = ranges.firstIndex { $0.lowerBound <= number } ?? ranges.count
    if index < ranges.count, ranges[index].contains(number) { return }
    let joinsUpper = index > 0 && ranges[index - 1].lowerBound == number + 1
    let joinsLower = index < ranges.count && ranges[index].upperBound + 1 == number
    switch (joinsUpper, joinsLower) {
    case (true, true):
      ranges[index - 1] = ranges[index].lowerBound...ranges[index - 1].upperBound
      ranges.remove(at: index)
    case (true, false):
      ranges[index - 1] = number...ranges[index - 1].upperBound
    case (false, true):
      ranges[index] = ranges[index].lowerBound...number
    case (false, false):
      ranges.insert(number...number, at: index)
      if ranges.count > WireLimits.maximumReceiptRanges { dropLowest() }
    }
  }
}
