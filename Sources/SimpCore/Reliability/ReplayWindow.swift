/// Refuses a datagram number that was seen before (RFC 6479). Moved only after the tag of the datagram was verified.
public struct ReplayWindow: Sendable {
  /// Numbers below the highest that can still be told apart.
  public static let width: UInt64 = 1024 - 64

  // A ring of 16 words, one more than the window needs, so that moving ahead clears whole words.
  private var words: InlineArray<16, UInt64> = .init(repeating: 0)
  private var highest: UInt64?

  public init() {}

  /// Marks a number.
  ///
  /// - Returns: false when it was marked before, or lies so far back that nobody knows.
  public mutating func insert(_ number: UInt64) -> Bool {
    let word = number / 64
    if let highest {
      if number > highest {
        let ahead = min(word - highest / 64, 16)
        for step in 0..<ahead { words[Int((word - step) % 16)] = 0 }
        self.highest = number
      } else if highest - number >= Self.width {
        return false
      }
    } else {
      highest = number
    }
    let bit = UInt64(1) << (number % 64)
    let index = Int(word % 16)
    if words[index] & bit != 0 { return false }
    words[index] |= bit
    return true
  }
}
