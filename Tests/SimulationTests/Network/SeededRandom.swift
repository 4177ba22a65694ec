import SimpCore

/// SplitMix64: small, and the same on every machine, so that a seed names a run for ever.
struct SeededRandom: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  /// A stream of its own for one purpose: drawing more for one never shifts what another draws.
  init(seed: UInt64, purpose: UInt64) {
    state = seed &* 0x9E37_79B9_7F4A_7C15 ^ purpose &* 0xD134_2543_DE82_EF95
    _ = next()
  }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
    return mixed ^ mixed >> 31
  }

  mutating func chance(_ probability: Double) -> Bool {
    probability > 0 && Double(next() >> 11) / Double(1 << 53) < probability
  }

  mutating func interval(upTo limit: Interval) -> Interval {
    limit.nanoseconds <= 0 ? .zero : Interval(nanoseconds: Int64(next() % UInt64(limit.nanoseconds + 1)))
  }
}
