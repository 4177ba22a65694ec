import Testing

@testable import SimpCore

/// The maps that say what came, against sets that say the same at length.
@Suite struct WindowTests {
  @Test(arguments: 1...40 as ClosedRange<UInt64>) func replayWindowEqualsASet(seed: UInt64) {
    var random = Seeded(seed)
    var window = ReplayWindow()
    var seen: Set<UInt64> = []
    var highest: UInt64?
    var next = random.next() % 5000
    for step in 0..<4000 {
      // Mostly near the front, now and then far back or far ahead.
      let number: UInt64
      switch random.next() % 10 {
      case 0: number = next >= 1100 ? next - random.next() % 1100 : next
      case 1: number = next &+ random.next() % 3000
      default: number = next &+ random.next() % 4
      }
      next = max(next, number)
      let isNew = !seen.contains(number) && highest.map { number > $0 || $0 - number < ReplayWindow.width } ?? true
      #expect(window.refuses(number) == !isNew, "seed \(seed), step \(step), number \(number)")
      let result = window.insert(number)
      #expect(result == isNew, "seed \(seed), step \(step), number \(number)")
      if isNew { seen.insert(number) }
      highest = max(highest ?? 0, number)
    }
  }

  @Test func replayWindowAtItsEdges() {
    var window = ReplayWindow()
    let results = [
      window.insert(0), window.insert(0), window.insert(959), window.insert(0), window.insert(960), window.insert(1),
      window.insert(0), window.insert(.max), window.insert(.max), window.insert(.max - 959), window.insert(.max - 960),
      window.insert(960),
    ]
    #expect(results == [true, false, true, false, true, true, false, true, false, true, false, false])
  }

  @Test(arguments: 1...40 as ClosedRange<UInt64>) func orderMapEqualsASet(seed: UInt64) {
    var random = Seeded(seed)
    let base = random.next() % 100 + 1
    var map = OrderMap(base: base)
    var seen: Set<UInt64> = []
    var floor = base
    let reach: UInt64 = seed % 2 == 0 ? 200 : WireLimits.orderWindow
    for step in 0..<1500 {
      let lowest = map.base
      if random.next() % 20 == 0 {
        let order = lowest + random.next() % 90
        map.advance(to: order)
        floor = max(floor, order)
      } else {
        let order = lowest + random.next() % reach
        if !map.contains(order) { map.insert(order) }
        seen.insert(order)
      }
      // Everything from the floor on that came without a gap is below base.
      var expected = floor
      while seen.contains(expected) { expected += 1 }
      floor = expected
      #expect(map.base == expected, "seed \(seed), step \(step)")
      for _ in 0..<10 {
        let probe = map.base + random.next() % reach
        let came = seen.contains(probe)
        #expect(map.contains(probe) == came, "seed \(seed), step \(step), order \(probe)")
        let first = seen.filter { $0 >= probe }.min()
        if reach == 200 { #expect(map.first(from: probe) == first, "seed \(seed), step \(step)") }
      }
      #expect(map.contains(map.base - 1))
    }
  }
}
