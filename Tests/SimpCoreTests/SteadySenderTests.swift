import Testing

@testable import SimpCore

/// Timers of a sender that never pauses, and of one whose datagrams wait in a long queue.
@Suite struct SteadySenderTests {
  private func rig() -> ChannelRig {
    let rig = ChannelRig(limits: KeyLimits())
    rig.send(1, from: \.client)
    for datagram in rig.take(\.client) { rig.deliver(datagram, to: \.server) }
    rig.flush(\.server)
    rig.pass(.milliseconds(20))
    for datagram in rig.take(\.server) { rig.deliver(datagram, to: \.client) }
    return rig
  }

  /// A message each 20 ms, and nothing arrives any more: each new datagram starts the timer of the probe again, and yet
  /// the path is down soon, and all goes by TCP.
  @Test func whoGoesOnTalkingLearnsThatNothingArrives() {
    let rig = rig()
    let begin = rig.now
    while rig.client.channel.path == .up, rig.now < begin + .seconds(5) {
      rig.send(1, from: \.client)
      rig.pass(.milliseconds(20))
    }
    let time = rig.now - begin
    #expect(time <= .milliseconds(1100), "\(time.milliseconds) ms")
    rig.flush(\.client)
    let open = rig.client.channel.window.entries.values.filter { $0.state != .accepted }
    #expect(open.count > 10 && open.allSatisfy { $0.byTCP })
  }

  /// A steady talk whose receipts come as late as they may is no reason to probe.
  @Test func receiptsThatComeInTimeCallForNoProbe() {
    let rig = rig()
    var under: [(at: Instant, datagram: [UInt8], end: ReferenceWritableKeyPath<ChannelRig, ChannelRig.End>)] = []
    for step in 0..<4000 {
      rig.pass(.milliseconds(1))
      for item in under where item.at <= rig.now { rig.deliver(item.datagram, to: item.end) }
      under.removeAll { $0.at <= rig.now }
      if step % 10 == 0 { rig.send(1, from: \.client) } else { rig.flush(\.client) }
      for datagram in rig.take(\.client) { under.append((rig.now + .milliseconds(10), datagram, \.server)) }
      rig.flush(\.server)
      for datagram in rig.take(\.server) { under.append((rig.now + .milliseconds(10), datagram, \.client)) }
    }
    let counters = rig.client.channel.snapshot()
    #expect(counters.probeTimeouts == 0 && counters.retransmissions == 0 && counters.datagramsSent > 390)
  }

  /// Messages that wait in a queue of four seconds are under way, and go neither again nor by TCP.
  @Test func aLongQueueIsNoLoss() {
    let rig = rig()
    let channel = rig.client.channel
    // The queue grows until its receipts take four seconds.
    for wait: Int64 in [100, 400, 1000, 2000] + [Int64](repeating: 4000, count: 20) {
      rig.send(1, from: \.client)
      rig.pass(.milliseconds(wait))
      for datagram in rig.take(\.client) { rig.deliver(datagram, to: \.server) }
      rig.flush(\.server)
      for datagram in rig.take(\.server) { rig.deliver(datagram, to: \.client) }
    }
    let before = channel.snapshot()
    #expect(channel.rtt.smoothed > .milliseconds(3000) && channel.path == .up)
    rig.send(1, from: \.client)
    let left = rig.take(\.client)
    for _ in 0..<78 {
      rig.pass(.milliseconds(50))
      rig.flush(\.client)
    }
    for datagram in left { rig.deliver(datagram, to: \.server) }
    rig.flush(\.server)
    for datagram in rig.take(\.server) { rig.deliver(datagram, to: \.client) }
    let after = channel.snapshot()
    #expect(after.messagesByTCP == before.messagesByTCP && after.messagesEscalated == before.messagesEscalated)
    #expect(after.probeTimeouts == before.probeTimeouts)
  }
}
