/// Which orders of one conversation came: all below `base`, and those whose bit is set above it.
public struct OrderMap: Hashable, Sendable {
  /// Every order below is finished: it came, or its sender never sends it again.
  public private(set) var base: UInt64
  // BOUND: bits for at most `WireLimits.orderWindow` orders above base; empty while nothing is missing.
  /// The lowest bit of the first word stands for `base`.
  public private(set) var words: [UInt64] = []

  public init(base: UInt64) { self.base = base }

  /// One that was kept.
  ///
  /// - Returns: nil for more words than a window has.
  public init?(base: UInt64, words: [UInt64]) {
    guard words.count <= Int(WireLimits.orderWindow) / 64 + 1 else { return nil }
    self.base = base
    self.words = words
    advancePastReceived()
  }

  /// No order from here on came.
  public var end: UInt64 {
    guard let last = words.last else { return base }
    return base + UInt64(words.count * 64 - last.leadingZeroBitCount)
  }

  public func contains(_ order: UInt64) -> Bool {
    if order < base { return true }
    let bit = order - base
    let word = Int(bit / 64)
    return word < words.count && words[word] >> (bit % 64) & 1 == 1
  }

  /// The lowest order that came, from `order` on; nil when none did.
  func first(from order: UInt64) -> UInt64? {
    if order < base { return order }
    let start = order - base
    var index = Int(min(start / 64, UInt64(words.count)))
    var mask = UInt64.max << (start % 64)
    while index < words.count {
      let word = words[index] & mask
      if word != 0 { return base + UInt64(index) * 64 + UInt64(word.trailingZeroBitCount) }
      mask = .max
      index += 1
    }
    return nil
  }

  /// Marks an order that lies less than the window above base.
  public mutating func insert(_ order: UInt64) {
    precondition(order >= base && order - base < WireLimits.orderWindow, "the caller checks the window")
    if order == base, words.isEmpty {
      base += 1
      return
    }
    let bit = order - base
    let word = Int(bit / 64)
    while words.count <= word { words.append(0) }
    words[word] |= 1 << (bit % 64)
    if order == base { advancePastReceived() }
  }

  /// Nothing below `order` will come any more.
  public mutating func advance(to order: UInt64) {
    guard order > base else { return }
    shift(by: order - base)
    advancePastReceived()
  }

  private mutating func advancePastReceived() {
    while let first = words.first, first & 1 == 1 {
      let ones = UInt64((~first).trailingZeroBitCount)
      shift(by: ones)
    }
    while words.last == 0 { words.removeLast() }
  }

  private mutating func shift(by count: UInt64) {
    base += count
    let whole = Int(min(count / 64, UInt64(words.count)))
    words.removeFirst(whole)
    let rest = count % 64
    guard rest > 0, !words.isEmpty else { return }
    for index in words.indices {
      let above = index + 1 < words.count ? words[index + 1] << (64 - rest) : 0
      words[index] = words[index] >> rest | above
    }
  }
}
