import Testing

@testable import SimpCore

@Suite struct LossWindowTests {
  private func settle(_ window: inout LossWindow, _ count: Int, lost every: Int = 0) {
    for number in 0..<count { _ = window.settle(isLost: every > 0 && number % every == every - 1) }
  }

  @Test func theWindowDecidesAndNotTheTotals() {
    var window = LossWindow()
    settle(&window, 1000, lost: 5)
    #expect(window.quality.isDegraded && abs(window.share - 0.2) < 0.02)
    settle(&window, 128)
    #expect(!window.quality.isDegraded && window.lost == 0)
    settle(&window, 40, lost: 2)
    #expect(window.quality.isDegraded)
  }

  @Test func betweenTheThresholdsNothingChanges() {
    var window = LossWindow()
    settle(&window, 256, lost: 14)
    #expect(!window.quality.isDegraded)
    settle(&window, 256, lost: 5)
    settle(&window, 256, lost: 14)
    #expect(window.quality.isDegraded)
    settle(&window, 256, lost: 40)
    #expect(!window.quality.isDegraded)
  }

  @Test func fewDatagramsSayNothing() {
    var window = LossWindow()
    settle(&window, LossWindow.least - 1, lost: 1)
    #expect(!window.quality.isDegraded && window.share == 1)
    settle(&window, 1, lost: 1)
    #expect(window.quality.isDegraded)
  }

  @Test func whatWasOnlyLateIsForgiven() {
    var window = LossWindow()
    var places: [UInt64] = []
    for number in 0..<128 {
      let place = window.settle(isLost: number % 4 == 0)
      if number % 4 == 0 { places.append(place) }
    }
    #expect(window.quality.isDegraded && window.lost == 32)
    for place in places { window.forgive(place) }
    #expect(!window.quality.isDegraded && window.lost == 0)
    settle(&window, 128, lost: 4)
    window.forgive(places[0])
    #expect(window.lost == 32)
  }

  /// What a receipt settles and forgives, by way of the datagrams.
  @Test func aLateReceiptTakesTheLossBack() throws {
    let start = Instant(nanoseconds: 1_000_000_000)
    var sent = SentDatagrams()
    for number: UInt64 in 0..<8 {
      var datagram = SentDatagram(eliciting: true, sent: start)
      datagram.number = sent.takeNumber()
      datagram.bytes = 100
      datagram.messages = [MessageKey(conversation: 0, order: number + 1)]
      sent.insert(datagram)
    }
    _ = try sent.receive(
      DatagramReceipt(ranges: [4...7], delay: .zero), byUDP: true, now: start + .milliseconds(10))
    #expect(sent.lostCount == 4 && sent.losses.lost == 4 && sent.losses.count == 8)
    _ = try sent.receive(
      DatagramReceipt(ranges: [0...7], delay: .zero), byUDP: true, now: start + .milliseconds(20))
    #expect(sent.spuriousCount == 4 && sent.losses.lost == 0 && sent.losses.count == 8)
  }

  @Test func whatIsMissingAmongTheNumbersThatCame() {
    var replay = ReplayWindow()
    #expect(replay.missing(of: 128) == (0, 0))
    for number: UInt64 in 0..<2000 where number % 4 != 1 { _ = replay.insert(number) }
    #expect(replay.missing(of: 128) == (32, 128))
    for number: UInt64 in 2000..<2200 { _ = replay.insert(number) }
    #expect(replay.missing(of: 128) == (0, 128))
    // The three highest may only be overtaken.
    _ = replay.insert(2203)
    #expect(replay.missing(of: 128) == (1, 128))
  }

  @Test func aChannelTellsBothDirections() {
    let rig = ChannelRig(limits: KeyLimits())
    #expect(rig.client.channel.pathStatistics.sending == .up)
    for round in 0..<200 {
      rig.send(1, from: \.client)
      for datagram in rig.take(\.client) where round % 4 != 0 { rig.deliver(datagram, to: \.server) }
      rig.pass(.milliseconds(30))
      rig.flush(\.server)
      for datagram in rig.take(\.server) { rig.deliver(datagram, to: \.client) }
    }
    let client = rig.client.channel.pathStatistics
    let server = rig.server.channel.pathStatistics
    #expect(client.sending == .degraded && client.receiving == .up, "\(client)")
    #expect(server.receiving == .degraded && server.sending == .up, "\(server)")
    #expect(client.sendingLoss > 0.15 && server.receivingLoss > 0.15 && client.receivingLoss < 0.02)
    #expect(client.datagramsLost > 20 && client.retransmissions > 20 && client.latestRTT != nil)
  }
}
