import Glibc
import SimpCore
import Testing

@testable import SimpCore
@testable import SimpServer

/// How long messages take over a bad network, as one line for each rate and loss: two hops of 20 ms round trip, loss each
/// way on each, many pairs, messages of 128 bytes. In virtual time, so that the machine has no part in it.
@Suite struct DeliveryTableTests {
  struct Row: CustomTestStringConvertible, Sendable {
    /// Messages a second of all pairs.
    var rate: Int
    /// Of the datagrams of each direction, in percent.
    var loss: Int
    var redundancy = Redundancy.off

    var testDescription: String {
      "\(rate)/s, \(loss) % loss" + (redundancy == .off ? "" : ", redundancy \(redundancy.rawValue)")
    }
  }

  /// A short conversation of few pairs, or as long as SIMP_DELIVERY_SECONDS says of 32 pairs: 300 s give a p99.9 that
  /// stands on a hundred messages, and take minutes in a release build.
  // SAFETY: no test changes the environment; the text is read at once.
  static let given = unsafe getenv("SIMP_DELIVERY_SECONDS").flatMap { unsafe Int64(String(cString: $0)) }
  static let pairs = given == nil ? 8 : 32
  static let seconds = given ?? 15
  /// With SIMP_DELIVERY_LOSSES set each row tells which losses its messages met, and how long these took.
  // SAFETY: as above.
  static let tellsLosses = unsafe getenv("SIMP_DELIVERY_LOSSES") != nil

  static let rows =
    [0, 1, 5, 10].flatMap { [Row(rate: 320, loss: $0), Row(rate: 320, loss: $0, redundancy: .idle)] } + [
      Row(rate: 3200, loss: 5), Row(rate: 3200, loss: 5, redundancy: .idle),
      Row(rate: 3200, loss: 5, redundancy: .always),
    ]

  @Test(arguments: rows) func everythingArrivesOnce(row: Row) {
    let world = World(seed: 7, redundancy: row.redundancy)
    if Self.tellsLosses { world.losses = LossTrace() }
    var conditions = LinkConditions()
    conditions.loss = Double(row.loss) / 100
    // Each pair at its own pace of the 32.
    let pause = Interval.milliseconds(1000 * 32 / Int64(row.rate))
    let seconds = row.rate > 1000 ? Self.seconds / 5 : Self.seconds
    var count = 0
    for pair in 0..<Self.pairs {
      let sender = SimulatedClient(world: world, name: "sender\(pair)", up: conditions, down: conditions)
      let recipient = SimulatedClient(world: world, name: "recipient\(pair)", up: conditions, down: conditions)
      world.at(.zero) {
        recipient.start()
        sender.start()
      }
      var random = world.random(UInt64(pair) << 24 | 9)
      var due = Interval.seconds(3)
      while due < .seconds(3 + seconds) {
        due = due + pause / 2 + random.interval(upTo: pause)
        count += 1
        world.at(due) { _ = sender.post(to: recipient.name, size: 128) }
      }
    }
    while world.failures.isEmpty, world.ledger.failures.isEmpty,
      world.ledger.messages.count < count || !world.ledger.isComplete
    {
      guard world.step(limit: world.start + .seconds(seconds + 60)) else { break }
    }
    world.ledger.checkAllArrived()
    for failure in world.failures + world.ledger.failures { Issue.record("\(row.testDescription): \(failure)") }

    let latencies = world.ledger.latencies
    #expect(latencies.count == count && world.ledger.late == 0)
    func percentile(_ share: Double) -> Double { latencies[Int(Double(latencies.count - 1) * share)] }
    var packets: UInt64 = 0
    var again: UInt64 = 0
    for client in world.clients {
      packets += client.counters.messagesByUDP + client.counters.messagesByTCP
      again += client.counters.retransmissions
    }
    for reactor in world.server.reactors {
      for entry in reactor.switchboard.entries.values {
        let counters = entry.session.counters
        packets += counters.messagesByUDP + counters.messagesByTCP
        again += counters.retransmissions
      }
    }
    // Each message is needed once on each of two hops, and all have the same size.
    let sentOverNeeded = Double(packets) / Double(2 * count)
    print(
      "\(row.testDescription): \(count) messages, ms p50 \(percentile(0.5)) p99 \(percentile(0.99)) p99.9 \(percentile(0.999))",
      "max \(percentile(1)), sent over needed \(sentOverNeeded), sent again \(again)")
    for line in world.losses?.lines(world.ledger.messages) ?? [] { print(line) }
    if row.loss == 0 { #expect(Double(again) < 0.02 * Double(count), "sent twice for nothing") }
    world.forgetEvents()
  }
}
