import Testing

@testable import SimpCore

@Suite struct CongestionControlTests {
  private let start = Instant(nanoseconds: 1_000_000_000)
  private func at(_ milliseconds: Int64) -> Instant { start + .milliseconds(milliseconds) }

  @Test func slowStartGrowsByWhatIsReceipted() {
    var control = CongestionControl()
    control.limited(at: 10)
    for number: UInt64 in 0..<10 { control.receipted(number, bytes: 1200, sent: at(0)) }
    #expect(control.window == 24_000 && control.isInSlowStart)
  }

  @Test func aWindowThatIsNotUsedDoesNotGrow() {
    var control = CongestionControl()
    control.limited(at: 3)
    for number: UInt64 in 3..<100 { control.receipted(number, bytes: 1200, sent: at(0)) }
    #expect(control.window == 12_000)
  }

  @Test func aLossHalvesOncePerRoundTrip() {
    var control = CongestionControl()
    control.lost(sent: at(5), now: at(20))
    #expect(control.window == 6000 && !control.isInSlowStart)
    control.lost(sent: at(20), now: at(25))
    #expect(control.window == 6000 && control.congestionEvents == 1)
    // What left before it neither shrinks nor grows anything.
    control.limited(at: 100)
    control.receipted(1, bytes: 6000, sent: at(20))
    control.receipted(2, bytes: 6000, sent: at(20))
    #expect(control.window == 6000)
    control.lost(sent: at(21), now: at(40))
    #expect(control.window == 4800 && control.congestionEvents == 2)
    for round: Int64 in 1...5 { control.lost(sent: at(40 + round), now: at(40 + round)) }
    #expect(control.window == 4800)
  }

  @Test func congestionAvoidanceGrowsByADatagramForEachWindow() {
    var control = CongestionControl()
    control.lost(sent: at(5), now: at(20))
    control.limited(at: 1000)
    for number: UInt64 in 0..<59 { control.receipted(number, bytes: 100, sent: at(30)) }
    #expect(control.window == 6000)
    control.receipted(59, bytes: 100, sent: at(30))
    #expect(control.window == 7200)
    for number: UInt64 in 60..<131 { control.receipted(number, bytes: 100, sent: at(30)) }
    #expect(control.window == 7200)
    control.receipted(131, bytes: 100, sent: at(30))
    #expect(control.window == 8400)
  }

  /// What flew under the former window counts on, so the largest one is remembered.
  @Test func anotherWayBeginsAnew() {
    var control = CongestionControl()
    control.limited(at: 10)
    for number: UInt64 in 0..<10 { control.receipted(number, bytes: 1200, sent: at(0)) }
    control.lost(sent: at(5), now: at(20))
    control.startAnew()
    #expect(control.window == 12_000 && control.isInSlowStart && control.congestionEvents == 0)
    #expect(control.largest == 24_000)
  }

  /// A queue grows, so the window is large enough.
  @Test func slowStartEndsWhenTheRoundTripGrows() {
    var control = CongestionControl()
    control.limited(at: 1000)
    control.sampled(.milliseconds(20), of: 0, nextNumber: 10)
    control.sampled(.milliseconds(90), of: 9, nextNumber: 10)
    #expect(control.isInSlowStart, "the shortest of a round counts")
    control.sampled(.milliseconds(35), of: 10, nextNumber: 20)
    #expect(control.isInSlowStart, "15 ms are no queue")
    control.sampled(.milliseconds(60), of: 20, nextNumber: 40)
    #expect(!control.isInSlowStart && control.window == 12_000 && control.congestionEvents == 0)
  }

  @Test func aLongRoundTripMayVaryMore() {
    var control = CongestionControl()
    control.limited(at: 1000)
    control.sampled(.milliseconds(400), of: 0, nextNumber: 10)
    control.sampled(.milliseconds(440), of: 10, nextNumber: 20)
    #expect(control.isInSlowStart)
    control.sampled(.milliseconds(500), of: 20, nextNumber: 30)
    #expect(!control.isInSlowStart)
  }

  /// What an idle sender meets is not its own queue.
  @Test func aWindowThatIsNotUsedKeepsItsSlowStart() {
    var control = CongestionControl()
    control.sampled(.milliseconds(20), of: 0, nextNumber: 10)
    control.sampled(.milliseconds(200), of: 10, nextNumber: 20)
    #expect(control.isInSlowStart)
  }

  @Test func theWindowHasAnEnd() {
    var control = CongestionControl()
    control.limited(at: .max)
    for number: UInt64 in 0..<10_000 { control.receipted(number, bytes: 1200, sent: at(0)) }
    #expect(control.window == WireLimits.maximumCongestionWindow)
  }

  // MARK: - By way of datagrams

  private func send(_ count: Int, at now: Instant, wanted: Bool = false, in sent: inout SentDatagrams) {
    for _ in 0..<count {
      var datagram = SentDatagram(eliciting: true, sent: now)
      datagram.number = sent.takeNumber()
      datagram.bytes = 1200
      datagram.wanted = wanted
      sent.insert(datagram)
    }
  }

  private func receive(_ ranges: ClosedRange<UInt64>..., at now: Instant, in sent: inout SentDatagrams) throws {
    _ = try sent.receive(DatagramReceipt(ranges: ranges, delay: .zero), byUDP: true, now: now)
  }

  @Test func whatFliesFillsTheWindow() throws {
    var sent = SentDatagrams()
    send(9, at: at(0), in: &sent)
    #expect(sent.room == 1200)
    send(2, at: at(0), in: &sent)
    #expect(sent.room == 0 && sent.bytesInFlight == 13_200)
    sent.noteLimited()
    try receive(0...9, at: at(20), in: &sent)
    #expect(sent.bytesInFlight == 1200 && sent.congestion.window == 24_000)
  }

  /// Everything between two losses is lost, for over three probe timeouts.
  @Test func persistentCongestionLeavesTheLeastWindow() throws {
    var sent = SentDatagrams()
    send(1, at: at(0), in: &sent)
    try receive(0...0, at: at(10), in: &sent)
    // 10 + 4 * 5 + 100 ms, three times.
    #expect(sent.rtt.persistentCongestion == .milliseconds(390))
    for step: Int64 in 0...4 { send(1, at: at(20 + 100 * step), in: &sent) }
    send(3, at: at(430), in: &sent)
    try receive(6...8, at: at(440), in: &sent)
    #expect(sent.lostCount == 5 && sent.congestion.window == CongestionControl.minimumWindow)
  }

  @Test func oneArrivalBetweenTheLossesIsEnough() throws {
    var sent = SentDatagrams()
    send(1, at: at(0), in: &sent)
    try receive(0...0, at: at(10), in: &sent)
    for step: Int64 in 0...4 { send(1, at: at(20 + 100 * step), in: &sent) }
    send(3, at: at(430), in: &sent)
    try receive(6...8, 3...3, at: at(440), in: &sent)
    #expect(sent.lostCount == 4 && sent.congestion.window == 6000)
  }

  @Test func aPathThatWasDownBeginsWithTheLeastWindow() {
    var sent = SentDatagrams()
    send(5, at: at(0), in: &sent)
    sent.abandonFlight()
    #expect(sent.congestion.window == CongestionControl.minimumWindow && sent.bytesInFlight == 0)
  }
}

@Suite struct PacerTests {
  private let start = Instant(nanoseconds: 1_000_000_000)

  private func rtt(_ sample: Interval) -> RTTEstimator {
    var rtt = RTTEstimator()
    rtt.update(sample: sample, receiptDelay: .zero)
    return rtt
  }

  /// Bytes that leave within `time` when something always waits.
  private func bytes(window: Int, isIdle: Bool = true, rtt: RTTEstimator, within time: Interval) -> Int {
    var pacer = Pacer()
    var now = start
    var total = 0
    while now <= start + time, total < 1 << 24 {
      if pacer.mayLeave(now: now, window: window, isIdle: total == 0 && isIdle, rtt: rtt) {
        pacer.left(bytes: 1200)
        total += 1200
      } else {
        guard let next = pacer.next, next > now else {
          Issue.record("it holds back and does not say until when")
          return 0
        }
        now = next
      }
    }
    return total
  }

  @Test func aBurstThenAQuarterMoreThanTheWindowInEachRoundTrip() {
    let second = bytes(window: 60_000, rtt: rtt(.milliseconds(50)), within: .seconds(1))
    let wanted = 12_000 + 60_000 * 5 / 4 * 20
    #expect(abs(second - wanted) <= 2400, "\(second), not \(wanted)")
    // Among others that fly, no burst.
    let busy = bytes(window: 60_000, isIdle: false, rtt: rtt(.milliseconds(50)), within: .seconds(1))
    #expect(abs(second - busy - 9600) <= 1200, "\(second) and \(busy)")
    let small = bytes(window: 2400, rtt: rtt(.milliseconds(100)), within: .seconds(1))
    #expect(abs(small - (2400 + 2400 * 5 / 4 * 10)) <= 2400, "\(small)")
  }

  @Test func aShortPathIsNotPaced() {
    #expect(bytes(window: 2400, rtt: rtt(.microseconds(1900)), within: .zero) == 1 << 24 / 1200 * 1200 + 1200)
    #expect(bytes(window: 2400, rtt: RTTEstimator(), within: .zero) > 1 << 23)
  }

  @Test func idleTimeGathersOneBurst() {
    var pacer = Pacer()
    let rtt = rtt(.milliseconds(10))
    _ = pacer.mayLeave(now: start, window: 24_000, isIdle: true, rtt: rtt)
    var sent = 0
    while pacer.mayLeave(now: start + .seconds(100), window: 24_000, isIdle: sent == 0, rtt: rtt) {
      pacer.left(bytes: 1200)
      sent += 1
    }
    #expect(sent == 10)
    while pacer.mayLeave(now: start + .seconds(200), window: 24_000, isIdle: false, rtt: rtt) {
      pacer.left(bytes: 1200)
      sent += 1
    }
    #expect(sent == 15, "what 2 ms bear, when others fly: five datagrams")
    sent = 10
    // A large window lets pass what a timer of 2 ms would have to.
    var large = Pacer()
    _ = large.mayLeave(now: start, window: 240_000, isIdle: true, rtt: rtt)
    while large.mayLeave(now: start + .seconds(100), window: 240_000, isIdle: true, rtt: rtt) {
      large.left(bytes: 1200)
      sent += 1
    }
    #expect(sent == 60)
  }
}

/// Both ends of a channel with messages that fill datagrams.
@Suite struct ChannelCongestionTests {
  private func insert(_ count: Int, bytes: Int, in rig: ChannelRig) {
    for order in 1...UInt64(count) {
      let message = EncodedMessage(
        MessageContent(text: String(repeating: "m", count: bytes)), messageId: 3 << 40 | order, order: order,
        toUser: "bob")
      rig.client.channel.insert(MessageKey(conversation: 0, order: order), message, byTCP: false)
    }
  }

  @Test func aFullWindowAsksForItsReceiptWhenHalfIsUsed() {
    let rig = ChannelRig(limits: KeyLimits())
    insert(100, bytes: 1000, in: rig)
    rig.flush(\.client)
    let left = rig.take(\.client)
    #expect(left.count == 11 && rig.client.channel.sent.bytesInFlight <= 12_000, "\(left.count)")
    for datagram in left.prefix(7) { rig.deliver(datagram, to: \.server) }
    rig.flush(\.server)
    // The first wants it, after idle; while that one flies no other asks.
    let receipts = rig.take(\.server)
    #expect(receipts.count == 1)
    for datagram in receipts { rig.deliver(datagram, to: \.client) }
    rig.flush(\.client)
    #expect(rig.client.channel.pathStatistics.congestionWindow > 18_000)
    let more = rig.take(\.client)
    for datagram in left.dropFirst(7) { rig.deliver(datagram, to: \.server) }
    #expect(!more.isEmpty && !rig.server.channel.received.wantedNow)
    for datagram in more { rig.deliver(datagram, to: \.server) }
    #expect(rig.server.channel.received.wantedNow, "half of the window is used, and nobody asked")
  }

  /// What is left of a large window waits until it takes a full datagram.
  @Test func aLargeWindowIsUsedByFullDatagrams() {
    let rig = ChannelRig(limits: KeyLimits())
    insert(400, bytes: 60, in: rig)
    rig.flush(\.client)
    let left = rig.take(\.client).map(\.count)
    #expect(left.count == 10 && left.allSatisfy { $0 > 1000 }, "\(left)")
  }

  /// The window of a channel whose receipts come at once opens until the messages run out.
  @Test func aShortPathIsSoonOpen() {
    let rig = ChannelRig(limits: KeyLimits())
    insert(1000, bytes: 1000, in: rig)
    var rounds = 0
    while rig.client.channel.window.hasUDPWork, rounds < 100 {
      rounds += 1
      rig.flush(\.client)
      rig.pass(.microseconds(50))
      for datagram in rig.take(\.client) { rig.deliver(datagram, to: \.server) }
      rig.flush(\.server)
      for datagram in rig.take(\.server) { rig.deliver(datagram, to: \.client) }
    }
    #expect(rounds <= 9, "\(rounds) round trips")
  }

  /// A path of 20 ms: what leaves is spread, and the channel says when it goes on.
  @Test func aLongPathIsPaced() {
    let rig = ChannelRig(limits: KeyLimits())
    insert(400, bytes: 1000, in: rig)
    var under: [(at: Instant, datagram: [UInt8], end: ReferenceWritableKeyPath<ChannelRig, ChannelRig.End>)] = []
    var bursts: [Int] = []
    for _ in 0..<200 {
      rig.pass(.milliseconds(1))
      for item in under where item.at <= rig.now { rig.deliver(item.datagram, to: item.end) }
      under.removeAll { $0.at <= rig.now }
      rig.flush(\.client)
      let left = rig.take(\.client)
      bursts.append(left.count)
      for datagram in left { under.append((rig.now + .milliseconds(10), datagram, \.server)) }
      rig.flush(\.server)
      for datagram in rig.take(\.server) { under.append((rig.now + .milliseconds(10), datagram, \.client)) }
      if rig.client.channel.window.hasUDPWork, rig.client.channel.sent.room > 1200 {
        #expect(rig.client.channel.deadline(now: rig.now) < rig.now + .milliseconds(20))
      }
    }
    #expect(!rig.client.channel.window.hasUDPWork && bursts.max() ?? 0 <= 30, "\(bursts)")
  }

  @Test func noDatagramIsLargerThanItMayBe() {
    let rig = ChannelRig(limits: KeyLimits())
    insert(12, bytes: 1090, in: rig)
    // So that the receipt is long.
    rig.send(80, from: \.server)
    for (index, datagram) in rig.take(\.server).enumerated() where index % 2 == 0 {
      rig.deliver(datagram, to: \.client)
    }
    rig.flush(\.client)
    let left = rig.take(\.client)
    #expect(left.count > 5 && left.allSatisfy { $0.count <= WireLimits.maximumDatagramBytes }, "\(left.map(\.count))")
  }

  /// Nothing is receipted, so the window stays full: what waits for room goes by TCP when what flies does.
  @Test func aWindowThatStaysFullHoldsNothingUp() {
    let rig = ChannelRig(limits: KeyLimits())
    insert(100, bytes: 1000, in: rig)
    rig.flush(\.client)
    #expect(rig.client.channel.counters.messagesByTCP == 0)
    while rig.now < ChannelRig.start + .milliseconds(3300) {
      rig.pass(.milliseconds(50))
      rig.flush(\.client)
    }
    #expect(rig.client.channel.path == .up)
    #expect(rig.client.channel.counters.messagesByTCP == 100, "\(rig.client.channel.counters.messagesByTCP)")
  }
}
