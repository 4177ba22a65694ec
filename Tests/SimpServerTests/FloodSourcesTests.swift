import SimpCore
import Testing

@testable import SimpServer

/// Which sources the kernel is asked to refuse, and for how long.
@Suite struct FloodSourcesTests {
  private final class Rig {
    var floods = FloodSources()
    var now = Instant(nanoseconds: 1_000_000_000)

    static func source(_ number: Int) -> PeerSource {
      PeerSource(.v4(192, 0, UInt8(number / 256), UInt8(number % 256), port: 1))
    }

    /// - Returns: how often it was said that this is a flood.
    func send(_ count: Int, from number: Int) -> Int {
      (0..<count).filter { _ in floods.cameInVain(from: Self.source(number)) }.count
    }

    func refuse(_ number: Int) -> Bool { floods.refuse(Self.source(number), now: now) }
    func welcome(_ number: Int) -> Bool { floods.welcome(Self.source(number)) }
    func tick() -> Bool { floods.tick(now: now) }
  }

  @Test func soManyBetweenTwoTicksAreAFlood() {
    let rig = Rig()
    #expect(rig.send(FloodSources.threshold - 1, from: 1) == 0)
    #expect(rig.send(FloodSources.threshold - 1, from: 2) == 0)
    #expect(rig.send(1, from: 1) == 1)
    // It is said once.
    #expect(rig.send(FloodSources.threshold * 3, from: 1) == 0)
    #expect(!rig.tick())
    #expect(rig.send(FloodSources.threshold - 1, from: 2) == 0)
    #expect(rig.send(FloodSources.threshold, from: 1) == 1)
  }

  @Test func theirTimeEnds() {
    let rig = Rig()
    #expect(rig.refuse(1) && !rig.refuse(1))
    rig.now = rig.now + .seconds(1)
    #expect(rig.refuse(2))
    rig.now = rig.now + FloodSources.time + .seconds(-1)
    #expect(rig.tick() && rig.floods.sources == [Rig.source(2)])
    #expect(!rig.tick())
    #expect(rig.welcome(2) && !rig.welcome(2) && rig.floods.sources.isEmpty)
  }

  /// Many sources, as they are when they are not true: the tables stay as they are.
  @Test func manySourcesTakeNoMoreRoom() {
    let rig = Rig()
    for number in 0..<5000 { #expect(rig.send(1, from: number) == 0) }
    #expect(rig.floods.countedSources <= FloodSources.maximumCounted)
    let refused = (0..<100).filter { rig.refuse($0) }
    #expect(refused.count == FloodSources.maximumRefused && rig.floods.sources.count == refused.count)
  }
}
