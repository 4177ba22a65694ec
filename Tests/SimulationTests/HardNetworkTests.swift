import SimpCore
import Testing

@testable import SimpCore

/// What people notice when UDP goes away in mid-conversation, or when the link is narrow and its queue long. In virtual
/// time: the figures are those of the protocol, not of the machine.
@Suite struct HardNetworkTests {
  private struct Talk {
    var latencies: [Double] = []
    var failures: [String] = []
    var alice = ChannelCounters()
    var seconds = 0.0
    var byUDPAtTheEnd = false
  }

  private func talk(
    up: LinkConditions = LinkConditions(), down: LinkConditions = LinkConditions(), off: Range<Interval>? = nil,
    redundancy: Redundancy = .idle, seed: UInt64, posts: (World, SimulatedClient) -> Int
  ) -> Talk {
    let world = World(seed: seed, redundancy: redundancy)
    var (up, down) = (up, down)
    if let off {
      up.off = [world.span(off)]
      down.off = [world.span(off)]
    }
    let bob = SimulatedClient(world: world, name: "bob", up: up, down: down)
    let alice = SimulatedClient(world: world, name: "alice", up: up, down: down)
    world.at(.zero) {
      bob.start()
      alice.start()
    }
    let count = posts(world, alice)
    while world.failures.isEmpty, world.ledger.messages.count < count || !world.ledger.isComplete {
      guard world.step(limit: world.start + .seconds(300)) else { break }
    }
    var talk = Talk()
    talk.seconds = (world.now - world.start).milliseconds / 1000
    world.ledger.checkAllArrived()
    talk.failures = world.failures + world.ledger.failures
    talk.latencies = world.ledger.latencies
    talk.alice = alice.counters
    talk.byUDPAtTheEnd = alice.session?.path == .up && bob.session?.path == .up
    world.forgetEvents()
    return talk
  }

  /// A line each 20 ms, and nothing passes by UDP for six seconds: whatever was written meanwhile is there within a
  /// second and a half, and UDP is in use again ten seconds after it passes again.
  @Test(arguments: [1, 2, 3] as [UInt64]) func udpGoesAway(seed: UInt64) {
    let talk = talk(off: .seconds(3)..<(.seconds(9)), seed: seed) { world, alice in
      let lines = 800
      for line in 0..<Int64(lines) {
        world.at(.milliseconds(1000 + line * 20)) { _ = alice.post(to: "bob", size: 80) }
      }
      return lines
    }
    for failure in talk.failures { Issue.record("seed \(seed): \(failure)") }
    print("UDP goes away, seed \(seed): worst \(talk.latencies.last ?? 0) ms, by TCP \(talk.alice.messagesByTCP)")
    #expect(talk.latencies.last ?? .infinity < 1500)
    #expect(talk.alice.messagesByTCP > 0 && talk.byUDPAtTheEnd)
  }

  /// The path goes down for the client alone, for the server has nothing to send: it hears when it is up again, and
  /// challenges no more.
  @Test(arguments: [1, 2, 3] as [UInt64]) func thePathIsDownForTheClientAlone(seed: UInt64) {
    let world = World(seed: seed)
    let bob = SimulatedClient(world: world, name: "bob", up: LinkConditions(), down: LinkConditions())
    var broken = LinkConditions()
    broken.off = [world.span(.seconds(3)..<(.seconds(8)))]
    let alice = SimulatedClient(world: world, name: "alice", up: broken, down: broken)
    world.at(.zero) {
      bob.start()
      alice.start()
    }
    for line: Int64 in 0..<50 {
      world.at(.milliseconds(3100 + line * 20)) { _ = alice.post(to: "bob", size: 80) }
    }
    while world.failures.isEmpty, world.step(limit: world.start + .seconds(20)) {}
    #expect(alice.pathDowns == 1 && alice.pathUps == 2, "down \(alice.pathDowns), up \(alice.pathUps)")
    let before = alice.up.counters.offered
    while world.failures.isEmpty, world.step(limit: world.start + .seconds(60)) {}
    // Two keep-alives at most; a challenge each five seconds would be eight.
    #expect(alice.up.counters.offered - before <= 3, "\(alice.up.counters.offered - before)")
    #expect(alice.session?.path == .up && bob.pathDowns == 0)
    world.ledger.checkAllArrived()
    for failure in world.failures + world.ledger.failures { Issue.record("seed \(seed): \(failure)") }
    world.forgetEvents()
  }

  /// 128 kbit/s with a queue of 50 datagrams, which take three and a half seconds: what waits there is sent once, and the
  /// link carries what it can.
  @Test(arguments: [250, 900]) func aNarrowLinkWithALongQueue(count: Int) {
    var narrow = LinkConditions()
    narrow.bytesPerSecond = 16_000
    narrow.queue = 50
    let talk = talk(up: narrow, down: narrow, seed: 1) { world, alice in
      world.at(.seconds(1)) {
        for _ in 0..<count { _ = alice.post(to: "bob", size: 1000) }
      }
      return count
    }
    for failure in talk.failures { Issue.record("\(failure)") }
    let goodput = Double(count * 1000) / (talk.seconds - 1) / 16_000
    print(
      "128 kbit/s, \(count) messages: goodput \(goodput), sent again \(talk.alice.retransmissions),",
      "by TCP \(talk.alice.messagesByTCP), lost \(talk.alice.datagramsLost), probes \(talk.alice.probeTimeouts)")
    #expect(goodput > 0.8)
    #expect(talk.alice.messagesEscalated == 0)
    #expect(Double(talk.alice.retransmissions) < 0.05 * Double(count))
  }
}
