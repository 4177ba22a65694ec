import SimpCore
import SimpIO
import Testing

/// Runs a loop on the calling thread until the test stops it; everything of the test happens on that one thread.
///
/// The limit is there to end a test that waits for what never comes, and then fails it.
func withLoop(
  limit: Interval = .seconds(20), sourceLocation: SourceLocation = #_sourceLocation,
  _ setUp: (EventLoop) throws -> Void
) throws {
  let loop = try EventLoop()
  defer { loop.close() }
  var isLate = false
  let watchdog = loop.makeTimer {
    isLate = true
    loop.stop()
  }
  watchdog.arm(at: loop.now + limit)
  try setUp(loop)
  loop.run()
  watchdog.close()
  #expect(!isLate, "the test did not come to its end", sourceLocation: sourceLocation)
}

extension [UInt8] {
  init(copying span: Span<UInt8>) {
    self.init()
    append(copying: span)
  }

  /// Reads `"0a 0b"`.
  init(hex: String) {
    let digits = hex.filter { $0 != " " && $0 != "\n" }
    self = stride(from: 0, to: digits.count, by: 2).map { offset in
      let start = digits.index(digits.startIndex, offsetBy: offset)
      return UInt8(digits[start..<digits.index(start, offsetBy: 2)], radix: 16)!
    }
  }
}

/// SplitMix64: the same numbers for the same seed, everywhere.
struct SeededRandom {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  /// From 0 to `bound - 1`.
  mutating func next(upTo bound: Int) -> Int { Int(next() % UInt64(bound)) }
}

/// The bytes at `offset` of an endless pattern in which no two nearby places look alike.
func pattern(at offset: Int, count: Int) -> [UInt8] {
  var bytes: [UInt8] = []
  while bytes.count < count {
    let start = (offset + bytes.count) % patternTable.count
    bytes += patternTable[start..<min(start + count - bytes.count, patternTable.count)]
  }
  return bytes
}

private let patternTable = (0..<65521).map { UInt8(truncatingIfNeeded: $0 ^ ($0 >> 8) &* 31) }
