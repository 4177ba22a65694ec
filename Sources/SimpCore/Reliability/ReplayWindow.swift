/// Refuses a datagram number that was seen before (RFC 6479). Moved only after the tag of the datagram was verified.
public struct ReplayWindow: Sendable {
  /// Numbers below the highest that can still be told apart.
  public static let width: UInt64 = 1024 - 64

  // A ring of 16 words, one more than the window needs, so that moving ahead clears whole words.
  private var words: InlineArray<16, UInt64> = .init(repeating: 0)
  private var highest: UInt64?

  public init() {}

  /// Whether a number was marked before, or lies so far back that nobody knows. A look changes nothing, so it may be had
  /// before the tag was verified.
  public func refuses(_ number: UInt64) -> Bool {
    guard let highest, number <= highest else { return false }
    return highest - number >= Self.width || words[Int(number / 64 % 16)] & 1 << (number % 64) != 0
  }

  /// Marks a number.
  ///
  /// - Returns: false when it is refused.
  public mutating func insert(_ number: UInt64) -> Bool {
    if refuses(number) { return false }
    let word = number / 64
    if let highest, number > highest {
      let ahead = min(word - highest / 64, 16)
      for step in 0..<ahead { words[Int((word - step) % 16)] = 0 }
    }
    highest = max(highest ?? number, number)
    words[Int(word % 16)] |= 1 << (number % 64)
    return true
  }

  /// How many of the latest numbers did not come. The three highest are not looked at: what is missing there may only
  /// be overtaken.
  ///
  /// - Returns: those that are missing, and of how many.
  func missing(of width: Int) -> (missing: Int, count: Int) {
    guard let highest, highest >= 3 else { return (0, 0) }
    let last = highest - 3
    let count = min(UInt64(width), last + 1, Self.width - 64)
    var missing = 0
    for number in (last + 1 - count)...last where words[Int(number / 64 % 16)] >> (number % 64) & 1 == 0 {
      missing += 1
    }
    return (missing, Int(count))
  }
}
