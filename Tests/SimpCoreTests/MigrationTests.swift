import Testing

@testable import SimpCore

/// A server's session whose client comes from another address, or seems to.
@Suite struct MigrationTests {
  private static let here = PeerAddress.v4(192, 0, 2, 1, port: 1000)
  private static let there = PeerAddress.v4(192, 0, 2, 1, port: 2000)
  private static let far = PeerAddress.v4(198, 51, 100, 1, port: 2000)

  private func proven() -> HandClient {
    let client = HandClient()
    client.prove(Self.here)
    return client
  }

  /// A message for the client; its datagram is what a flush sends.
  private func deliver(_ order: UInt64, to client: HandClient, bytes: Int = 40) {
    client.rig.session.deliver(
      MessageKey(conversation: 0, order: order),
      EncodedMessage(
        MessageContent(text: String(repeating: "m", count: bytes)), messageId: 1 << 40 | order, order: order,
        toUser: "alice"))
  }

  private func ping(_ client: HandClient, from address: PeerAddress, padding: Int = 0) {
    client.send(client.datagram(HandClient.token(.ping, 0, padding: padding)), from: address)
  }

  @Test func aNewAddressGetsMessagesAtOnce() {
    let client = proven()
    ping(client, from: Self.there, padding: 900)
    deliver(1, to: client)
    let left = client.flush()
    #expect(left.contains { $0.to == Self.there && $0.bytes.count < 200 }, "no message to the new address")
    #expect(client.rig.session.provenAddress == Self.here && client.rig.session.pathStatistics.migrations == 1)
    // Both are asked.
    #expect(left.count { $0.bytes.count == 1200 && $0.to == Self.here } == 1)
    #expect(left.count { $0.bytes.count == 1200 && $0.to == Self.there } == 1)
  }

  @Test func threeTimesWhatCameUntilItIsProven() {
    let client = proven()
    var came = 0
    var left = 0
    for round: UInt64 in 0..<40 {
      let datagram = client.datagram(HandClient.token(.ping, 0))
      came += datagram.count
      client.send(datagram, from: Self.there)
      for number: UInt64 in 0..<10 { deliver(round * 10 + number + 1, to: client, bytes: 500) }
      for datagram in client.flush() where datagram.to == Self.there { left += datagram.bytes.count }
      #expect(left <= 3 * came, "\(left) bytes for \(came)")
      client.pass(.milliseconds(5))
    }
    #expect(left > came)
    // The rig draws 4, and tokens are odd.
    client.send(client.datagram(HandClient.token(.pathResponse, 5)), from: Self.there)
    let free = client.flush()
    #expect(client.rig.session.provenAddress == Self.there && free.map(\.bytes.count).reduce(0, +) > 3 * 200)
    #expect(free.allSatisfy { $0.to == Self.there })
  }

  @Test func whatIsNotProvenIsGivenUp() {
    let client = proven()
    ping(client, from: Self.there, padding: 900)
    _ = client.flush()
    client.pass(.seconds(4))
    _ = client.flush()
    deliver(1, to: client)
    #expect(client.flush().map(\.to) == [Self.here])
    #expect(client.rig.session.pathStatistics.migrations == 2)
  }

  /// Somebody copies a datagram and is faster; the client's next one, or its answer, brings everything back.
  @Test func theOldAddressIsBackAtOnce() {
    let client = proven()
    ping(client, from: Self.far, padding: 900)
    _ = client.flush()
    ping(client, from: Self.here)
    deliver(1, to: client)
    let left = client.flush()
    #expect(left.contains { $0.to == Self.here } && !left.contains { $0.to == Self.far && $0.bytes.count < 1200 })
    #expect(client.rig.session.channel.allowance == nil)
  }

  /// What flew to whoever copied a datagram is sent to the client as soon as the path is back.
  @Test func whatFlewElsewhereFollowsTheClient() {
    let client = proven()
    ping(client, from: Self.far, padding: 900)
    deliver(1, to: client)
    #expect(client.flush().contains { $0.to == Self.far && $0.bytes.count < 1200 })
    ping(client, from: Self.here)
    #expect(client.flush().contains { $0.to == Self.here && $0.bytes.count < 1200 && $0.bytes.count > 100 })
    #expect(client.rig.session.channel.sent.lostCount == 0)
  }

  /// A ping from the proven address, that brings the path back from another one, is answered like any.
  @Test func aPingThatBringsThePathBackIsAnswered() {
    let client = proven()
    ping(client, from: Self.far)
    _ = client.flush()
    client.send(client.datagram(HandClient.token(.ping, 77)), from: Self.here)
    let left = client.flush()
    #expect(left.contains { $0.to == Self.here && $0.bytes.count < 200 }, "\(left.map(\.bytes.count))")
  }

  /// Whoever copies every datagram of a client and is faster moves the path with each: that must not be a lever.
  @Test func manyMovesAskOnce() {
    let client = proven()
    for order: UInt64 in 1...3 { deliver(order, to: client) }
    _ = client.flush()
    var left: [(bytes: [UInt8], to: PeerAddress)] = []
    for _ in 0..<50 {
      ping(client, from: Self.far)
      left += client.flush()
      ping(client, from: Self.here)
      left += client.flush()
    }
    #expect(client.rig.session.pathStatistics.migrations == 100)
    #expect(left.count { $0.to == Self.here && $0.bytes.count == 1200 } == 1)
    #expect(client.rig.session.channel.sent.bytesInFlight <= 1200)
  }

  @Test func anOldDatagramMovesNothing() {
    let client = proven()
    let old = client.datagram(HandClient.token(.ping, 0, padding: 900))
    ping(client, from: Self.here)
    client.send(old, from: Self.there)
    deliver(1, to: client)
    #expect(client.flush().allSatisfy { $0.to == Self.here })
    #expect(client.rig.session.pathStatistics.migrations == 0)
  }

  @Test func aChallengeThatIsLostIsRepeated() {
    let client = proven()
    ping(client, from: Self.there, padding: 1100)
    #expect(client.flush().count { $0.to == Self.there && $0.bytes.count == 1200 } == 1)
    client.pass(.milliseconds(1100))
    #expect(client.flush().count { $0.to == Self.there && $0.bytes.count == 1200 } == 1)
  }

  /// A client that only listens, with another address: the first probe timeout has it asked on TCP.
  @Test func theFirstProbeTimeoutAsksOnTCP() {
    let client = proven()
    client.pass(.seconds(2))
    deliver(1, to: client)
    _ = client.flush()
    _ = client.rig.session.takeStream()
    client.pass(.milliseconds(1100))
    _ = client.flush()
    let asked = SessionRig.packets(in: client.rig.session.takeStream()).map(\.header.command)
    #expect(asked == [.probeRequest] && client.rig.session.path == .up)
  }

  /// Whose datagrams come needs not be asked where it is.
  @Test func whoIsHeardIsNotAsked() {
    let client = proven()
    client.pass(.seconds(2))
    deliver(1, to: client)
    _ = client.flush()
    _ = client.rig.session.takeStream()
    client.pass(.milliseconds(1000))
    ping(client, from: Self.here)
    client.pass(.milliseconds(50))
    _ = client.flush()
    #expect(client.rig.session.pathStatistics.probeTimeouts == 1)
    #expect(!SessionRig.packets(in: client.rig.session.takeStream()).contains { $0.header.command == .probeRequest })
  }

  @Test func twoMissedKeepAlivesTakeThePathDown() {
    let client = proven()
    client.pass(.seconds(54))
    client.rig.session.receive(stream: SessionRig.packet(.ping).span, now: client.now)
    _ = client.flush()
    #expect(client.rig.session.path == .up)
    client.pass(.milliseconds(1100))
    _ = client.flush()
    #expect(client.rig.session.path == .down && client.rig.session.pathStatistics.receiving == .down)
    let asked = SessionRig.packets(in: client.rig.session.takeStream()).map(\.header.command)
    #expect(asked.contains(.probeRequest))
  }

  /// What is known of the way to one machine says nothing of the way to another; another port is the same way.
  @Test func anotherMachineIsAnotherPath() throws {
    for (address, isSame) in [(Self.there, true), (Self.far, false)] {
      let client = proven()
      deliver(1, to: client)
      _ = client.flush()
      client.pass(.milliseconds(30))
      var receipt: [UInt8] = []
      let last = client.rig.session.channel.sent.nextNumber - 1
      PacketWriter.append(
        .receipt, to: &receipt, payload: Receipt(datagrams: DatagramReceipt(ranges: [last...last], delay: .zero)).append
      )
      client.send(client.datagram(receipt), from: Self.here)
      #expect(client.rig.session.pathStatistics.latestRTT == .milliseconds(30))
      ping(client, from: address)
      #expect((client.rig.session.pathStatistics.latestRTT != nil) == isSame)
    }
  }
}
