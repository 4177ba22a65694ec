import Testing

@testable import SimpCore

/// The last messages go twice, and what that must never cost.
@Suite struct TailRedundancyTests {
  /// Both ends know a round trip of `rtt`, and nothing is under way.
  private func rig(_ mode: Redundancy = .idle, rtt: Interval = .milliseconds(20)) -> ChannelRig {
    let rig = ChannelRig(limits: KeyLimits())
    rig.client.channel.redundancy.mode = mode
    rig.send(1, from: \.client)
    for datagram in rig.take(\.client) { rig.deliver(datagram, to: \.server) }
    rig.flush(\.server)
    rig.pass(rtt)
    for datagram in rig.take(\.server) { rig.deliver(datagram, to: \.client) }
    rig.pass(.milliseconds(500))
    rig.flush(\.client)
    precondition(rig.take(\.client).isEmpty && rig.client.channel.rtt.smoothed == rtt)
    _ = rig.client.channel.takeAccepted()
    return rig
  }

  private func copies(_ rig: ChannelRig) -> UInt64 { rig.client.channel.pathStatistics.redundantCopies }

  /// Which of some messages, sent 4 ms apart, ask for their receipts. These arrive at once, or are still under way.
  private func asking(_ rig: ChannelRig, count: Int, isHeard: Bool = false) -> [Int] {
    (0..<count).filter { _ in
      rig.send(1, from: \.client)
      for datagram in rig.take(\.client) { rig.deliver(datagram, to: \.server) }
      let asks = rig.server.channel.received.wantedNow
      rig.flush(\.server)
      let receipts = rig.take(\.server)
      if isHeard { for datagram in receipts { rig.deliver(datagram, to: \.client) } }
      rig.pass(.milliseconds(4))
      return asks
    }
  }

  @Test func aThinFlowAsksTwiceARoundTrip() {
    #expect(asking(rig(.off), count: 5) == [0, 3])
    // Every 15 ms where the round trip is 30, and a short path never.
    #expect(asking(rig(.off, rtt: .milliseconds(30)), count: 9) == [0, 4, 8])
    #expect(asking(rig(.off, rtt: .milliseconds(1)), count: 9, isHeard: true) == [0])
  }

  @Test func aCopyLeavesAfterAQuarterOfTheRoundTripAndOnce() {
    let rig = rig()
    rig.send(1, from: \.client)
    #expect(rig.take(\.client).count == 1)
    #expect(rig.client.channel.deadline(now: rig.now) == rig.now + .milliseconds(5))
    rig.pass(.microseconds(4900))
    rig.flush(\.client)
    #expect(rig.take(\.client).isEmpty && copies(rig) == 0)
    rig.pass(.microseconds(100))
    let before = rig.client.channel.sent.bytesInFlight
    rig.flush(\.client)
    let left = rig.take(\.client)
    #expect(left.count == 1 && copies(rig) == 1)
    #expect(rig.client.channel.sent.bytesInFlight == before + (left.first?.count ?? 0), "a copy counts as in flight")
    // Neither the copy is copied, nor is it a retransmission.
    rig.pass(.milliseconds(14))
    rig.flush(\.client)
    #expect(rig.take(\.client).isEmpty && copies(rig) == 1)
    #expect(rig.client.channel.snapshot().retransmissions == 0)
    let counters = rig.client.channel.snapshot()
    #expect(counters.messageBytesSent > counters.messageBytesNeeded)
  }

  @Test func aLossCostsNoRoundTrip() {
    let rig = rig()
    rig.send(1, from: \.client)
    _ = rig.take(\.client)  // lost
    rig.pass(.milliseconds(5))
    rig.flush(\.client)
    for datagram in rig.take(\.client) { rig.deliver(datagram, to: \.server) }
    rig.pass(.milliseconds(20))
    rig.flush(\.server)
    for datagram in rig.take(\.server) { rig.deliver(datagram, to: \.client) }
    rig.flush(\.client)
    #expect(rig.client.channel.takeAccepted().count == 1)
    // What is lost is known to be here, in its copy: nothing is sent again, and no probe is due.
    rig.pass(.seconds(1))
    rig.flush(\.client)
    #expect(rig.take(\.client).isEmpty)
    let counters = rig.client.channel.snapshot()
    #expect(counters.retransmissions == 0 && counters.datagramsLost == 1 && counters.probeTimeouts == 0)
  }

  @Test func bothLostAreSentAgainByOneProbe() {
    let rig = rig()
    rig.send(1, from: \.client)
    rig.pass(.milliseconds(5))
    rig.flush(\.client)
    #expect(rig.take(\.client).count == 2)
    let alone = rig.client.channel.rtt.probeTimeout(receiptDelay: .zero)
    rig.pass(alone - .microseconds(100))
    rig.flush(\.client)
    #expect(rig.take(\.client).isEmpty)
    rig.pass(.microseconds(100))
    rig.flush(\.client)
    #expect(rig.take(\.client).count == 1)
    // It is in that probe once, though both of its datagrams are unheard of.
    #expect(rig.client.channel.snapshot().retransmissions == 1)
  }

  /// The receipt of the first may be lost as well.
  @Test func aCopyAsksAsItsOriginalDid() {
    let rig = rig()
    rig.send(1, from: \.client)
    for datagram in rig.take(\.client) { rig.deliver(datagram, to: \.server) }
    rig.flush(\.server)
    #expect(rig.take(\.server).count == 1)
    rig.pass(.milliseconds(5))
    rig.flush(\.client)
    for datagram in rig.take(\.client) { rig.deliver(datagram, to: \.server) }
    rig.flush(\.server)
    #expect(rig.take(\.server).count == 1)
  }

  @Test func aCopyRidesInWhatLeavesAnyway() {
    let rig = rig()
    rig.send(1, from: \.client)
    let single = rig.take(\.client).first?.count ?? 0
    rig.pass(.milliseconds(2))
    rig.send(1, from: \.client)
    let pair = rig.take(\.client)
    #expect(pair.count == 1 && copies(rig) == 1)
    #expect(pair.first?.count ?? 0 > single + 30, "the first message is not in it")
    // The second goes twice as well, the first not a third time.
    rig.pass(.milliseconds(5))
    rig.flush(\.client)
    #expect(rig.take(\.client).count == 1 && copies(rig) == 2)
  }

  @Test func aTalkWithoutPausesHasNoCopies() {
    let rig = rig()
    talk(20, in: rig)
    let before = copies(rig)
    talk(30, in: rig)
    #expect(copies(rig) == before, "\(before) and then \(copies(rig))")
    rig.client.channel.redundancy.mode = .always
    for count in 1...2 {
      talk(1, in: rig)
      rig.pass(.milliseconds(5))
      rig.flush(\.client)
      #expect(copies(rig) == before + UInt64(count))
    }
  }

  /// A message each 10 ms; its receipt, if there is one, needs as long.
  private func talk(_ count: Int, in rig: ChannelRig) {
    for _ in 0..<count {
      rig.pass(.milliseconds(10))
      for datagram in rig.take(\.server) { rig.deliver(datagram, to: \.client) }
      rig.send(1, from: \.client)
      for datagram in rig.take(\.client) { rig.deliver(datagram, to: \.server) }
      rig.flush(\.server)
    }
  }

  /// To lose a message twice costs most.
  @Test func whatWasLostGoesTwiceInABusyTalkToo() {
    let rig = rig()
    talk(20, in: rig)
    let before = copies(rig)
    rig.send(1, from: \.client)
    _ = rig.take(\.client)  // lost
    for _ in 0..<6 where rig.client.channel.snapshot().retransmissions == 0 { talk(1, in: rig) }
    #expect(rig.client.channel.snapshot().retransmissions == 1)
    rig.pass(.milliseconds(6))
    rig.flush(\.client)
    #expect(copies(rig) == before + 1)
  }

  @Test func neverWhenItIsOff() {
    let rig = rig(.off)
    rig.send(1, from: \.client)
    rig.pass(.milliseconds(6))
    rig.flush(\.client)
    #expect(rig.take(\.client).count == 1 && copies(rig) == 0)
  }

  @Test func neverOnAShortPath() {
    let rig = rig(.always, rtt: .microseconds(1900))
    rig.send(1, from: \.client)
    rig.pass(.microseconds(600))
    rig.flush(\.client)
    #expect(rig.take(\.client).count == 1 && copies(rig) == 0)
  }

  @Test func neverWhatArrived() {
    let rig = rig()
    rig.send(1, from: \.client)
    for datagram in rig.take(\.client) { rig.deliver(datagram, to: \.server) }
    rig.pass(.milliseconds(4))
    rig.flush(\.server)
    for datagram in rig.take(\.server) { rig.deliver(datagram, to: \.client) }
    rig.pass(.milliseconds(4))
    rig.flush(\.client)
    #expect(rig.take(\.client).isEmpty && copies(rig) == 0)
  }

  @Test func neverBeyondTheCongestionWindow() {
    let rig = rig(.always)
    let window = rig.client.channel.sent.congestion.window
    while rig.client.channel.sent.room >= WireLimits.maximumDatagramBytes { rig.send(1, from: \.client) }
    let before = copies(rig)
    _ = rig.take(\.client)
    rig.pass(.milliseconds(6))
    rig.flush(\.client)
    #expect(rig.take(\.client).isEmpty && copies(rig) == before)
    #expect(rig.client.channel.sent.bytesInFlight <= window)
  }

  @Test func neverToAnAddressThatIsNotProven() {
    let rig = rig()
    rig.send(1, from: \.client)
    _ = rig.take(\.client)
    rig.client.channel.allowance = 3000
    rig.pass(.milliseconds(6))
    rig.flush(\.client)
    #expect(rig.take(\.client).isEmpty && copies(rig) == 0)
  }

  @Test func neverWhenThePathIsDown() {
    let rig = rig()
    rig.send(1, from: \.client)
    _ = rig.take(\.client)
    rig.client.channel.pathFails()
    rig.pass(.milliseconds(6))
    rig.flush(\.client)
    #expect(rig.take(\.client).isEmpty && copies(rig) == 0)
  }
}
