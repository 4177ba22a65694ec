import Testing

@testable import SimpCore

/// What a server's session does with the datagrams of its client, and of those who write its address on theirs.
@Suite struct ServerPathTests {
  private static let here = PeerAddress.v4(192, 0, 2, 1, port: 1000)
  private static let elsewhere = PeerAddress.v4(192, 0, 2, 2, port: 1000)

  /// Bad tags under the client's own address are all tried: nobody can use the limit to shut it out.
  @Test func onlyUnprovenAddressesAreLimited() throws {
    let client = HandClient()
    let protection = try #require(client.rig.protection)
    client.prove(Self.here)
    var bad = client.datagram(HandClient.token(.ping, 1))
    bad[bad.count - 1] ^= 1
    var before = protection.tried
    for _ in 0..<5000 { client.send(bad, from: Self.elsewhere) }
    #expect(protection.tried - before == 1000)
    before = protection.tried
    for _ in 0..<5000 { client.send(bad, from: Self.here) }
    #expect(protection.tried - before == 5000)
    client.send(client.datagram(HandClient.token(.ping, 77)), from: Self.here)
    #expect(client.flush().map(\.to) == [Self.here])
  }

  /// What is dropped leaves nothing to do, so that a flood of it does not have a session flushed again and again.
  @Test func whatIsDroppedLeavesNothingToDo() {
    let client = HandClient()
    client.prove(Self.here)
    let good = client.datagram(HandClient.token(.ping, 1))
    var bad = client.datagram(HandClient.token(.ping, 2))
    bad[bad.count - 1] ^= 1
    #expect(client.send(good, from: Self.here))
    #expect(!client.send(good, from: Self.here) && !client.send(good, from: Self.elsewhere))
    #expect(!client.send(bad, from: Self.here) && !client.send(bad, from: Self.elsewhere))
    // The last bad tag of all ends UDP, and that is to be told.
    client.rig.session.channel.phases.limits.forgedDatagrams = 3
    #expect(client.send(bad, from: Self.here))
    client.rig.session.end(Refusal(.shuttingDown, "gone"), now: client.now)
    #expect(!client.send(client.datagram(HandClient.token(.ping, 3)), from: Self.here))
  }

  /// Challenges by the thousand and no receipt of anything: one answer a turn, and nothing piles up.
  @Test func challengesPileUpNothing() {
    let client = HandClient()
    client.prove(Self.here)
    client.rig.session.deliver(
      MessageKey(conversation: 0, order: 1),
      EncodedMessage(MessageContent(text: "m"), messageId: 1 << 40 | 1, order: 1, toUser: "alice"))
    _ = client.flush()
    for turn: UInt64 in 0..<200 {
      for number: UInt64 in 0..<100 {
        client.send(client.datagram(HandClient.token(.pathChallenge, turn * 100 + number + 1)), from: Self.here)
      }
      #expect(client.flush().count <= 2)
    }
    let sent = client.rig.session.channel.sent
    #expect(sent.kept <= 450, "\(sent.kept)")
  }

  /// A client whose own path was down challenges a path that is up here: it hears so again, but not with each challenge.
  @Test func aClientThatChallengesAPathThatIsUpIsToldAgain() {
    let client = HandClient()
    client.prove(Self.here)
    _ = client.rig.session.takeStream()
    func told(from address: PeerAddress, after time: Interval) -> Int {
      client.pass(time)
      client.send(client.datagram(HandClient.token(.pathChallenge, 11, padding: 1140)), from: address)
      _ = client.flush()
      let packets = SessionRig.packets(in: client.rig.session.takeStream())
      return packets.count { $0.header.command == .pathUp }
    }
    #expect(told(from: Self.here, after: .milliseconds(60)) == 0)
    #expect(told(from: Self.here, after: .seconds(4)) == 1)
    #expect(told(from: Self.here, after: .seconds(3)) == 0)
    #expect(told(from: Self.here, after: .seconds(1)) == 1)
    #expect(told(from: Self.elsewhere, after: .seconds(5)) == 0)
    #expect(client.rig.paths == 1)
  }

  /// Whatever an address that is not proven sends, it gets at most three times as much: probes and messages wait.
  @Test func anUnprovenAddressGetsNoMoreThanThreeTimes() {
    let client = HandClient()
    client.rig.session.deliver(
      MessageKey(conversation: 0, order: 1),
      EncodedMessage(MessageContent(text: "m"), messageId: 1 << 40 | 1, order: 1, toUser: "alice"))
    var sent = 0
    var received = 0
    for turn: UInt64 in 0..<600 {
      let packets =
        turn % 3 == 0 ? HandClient.token(.pathChallenge, turn + 1) : SessionRig.packet(.ping, sequence: 0, [])
      let datagram = client.datagram(packets)
      sent += datagram.count
      client.send(datagram, from: Self.elsewhere)
      received += client.flush().reduce(0) { $0 + $1.bytes.count }
      #expect(received <= 3 * sent)
      client.pass(.milliseconds(100))
    }
    #expect(received > 1200 && client.rig.session.path != .up)
  }
}
