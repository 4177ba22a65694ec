import Testing

@testable import SimpCore

@Suite struct ChannelKeyTests {
  /// Both directions change by themselves, lose nothing, and each number is sealed once.
  @Test func keysChangeAllTheTime() {
    let rig = ChannelRig(limits: KeyLimits(phaseDatagrams: 3))
    for _ in 0..<50 {
      rig.send(2, from: \.client)
      rig.send(1, from: \.server)
      rig.exchange(1)
    }
    rig.exchange()
    for (end, peer) in [(rig.client, rig.server), (rig.server, rig.client)] {
      let counters = end.channel.counters
      #expect(counters.keyChanges >= 10, "\(counters)")
      #expect(counters.keyChanges == peer.channel.counters.keyChangesOfPeer)
      #expect(counters.datagramsForged == 0 && counters.keyChangesTooSoon == 0 && counters.datagramsOutOfPhase == 0)
      #expect(counters.datagramsReceived == peer.channel.counters.datagramsSent)
      let sealed = end.protection.sealed
      #expect(zip(sealed, sealed.dropFirst()).allSatisfy { $0.number < $1.number && $0.phase <= $1.phase })
    }
  }

  @Test func withoutAReceiptNoKeyChanges() {
    let rig = ChannelRig(limits: KeyLimits(phaseDatagrams: 3))
    rig.send(30, from: \.client)
    #expect(rig.client.channel.counters.keyChanges == 0)
    #expect(rig.client.protection.sealed.allSatisfy { $0.phase == 0 })
  }

  /// A key that is used up ends UDP before it seals one datagram too many; messages go on by TCP.
  @Test func aKeyThatIsUsedUpEndsUDP() {
    let rig = ChannelRig(limits: KeyLimits(phaseDatagrams: 3, sealedDatagrams: 10))
    rig.send(12, from: \.client)
    rig.pass(.seconds(1))
    rig.flush(\.client)
    let channel = rig.client.channel
    #expect(rig.client.protection.sealed.count == 10)
    #expect(channel.path == .off && channel.udpEnd == .keyUsedUp && channel.protection == nil)
    #expect(channel.window.entries.values.allSatisfy { $0.byTCP })
    // Nothing asks for UDP any more, and the end is told once.
    channel.sendPong(1, to: ChannelRig.address, now: rig.now) { _, _ in Issue.record("a datagram without a key") }
    rig.flush(\.client)
    #expect(rig.downs == 1)
  }

  @Test func tooManyBadTagsEndUDP() {
    let rig = ChannelRig(limits: KeyLimits(forgedDatagrams: 5))
    rig.send(1, from: \.client)
    let good = rig.take(\.client)[0]
    var bad = good
    bad[bad.count - 1] ^= 1
    for _ in 0..<4 { rig.deliver(bad, to: \.server) }
    #expect(rig.server.channel.path == .up)
    rig.deliver(bad, to: \.server)
    #expect(rig.server.channel.path == .off && rig.server.channel.udpEnd == .tooManyForged)
    #expect(!rig.deliver(good, to: \.server))
  }

  /// Row by row what a datagram of the wrong phase meets: silence, and no change.
  @Test func junkInTheOtherPhaseChangesNothing() {
    let rig = ChannelRig(limits: KeyLimits(phaseDatagrams: 1000))
    rig.send(1, from: \.client)
    rig.exchange()
    rig.send(1, from: \.client)
    let good = rig.take(\.client)[0]
    for number in 0..<1000 {
      var junk = good
      junk[1] = 1
      junk[14] = UInt8(number >> 8)
      junk[15] = UInt8(number & 255)
      rig.deliver(junk, to: \.server)
    }
    let counters = rig.server.channel.counters
    #expect(counters.keyChangesOfPeer == 0)
    #expect(counters.datagramsForged + counters.datagramsOutOfPhase + counters.datagramsReplayed == 1000)
    #expect(rig.deliver(good, to: \.server))
  }

  /// The former key is held for reordered datagrams, and wiped by time.
  @Test func lateDatagramsOpenUntilTheFormerKeyIsWiped() {
    let rig = ChannelRig(limits: KeyLimits(phaseDatagrams: 2))
    rig.send(2, from: \.client)
    let early = rig.take(\.client)
    rig.deliver(early[0], to: \.server)
    rig.pass(.milliseconds(101))
    rig.flush(\.server)
    for datagram in rig.take(\.server) { rig.deliver(datagram, to: \.client) }
    rig.send(1, from: \.client)
    let changed = rig.take(\.client)
    #expect(changed[0][1] == 1)
    #expect(rig.deliver(changed[0], to: \.server))
    #expect(rig.server.protection.former == 0)
    #expect(rig.deliver(early[1], to: \.server), "reordered across the change")
    #expect(!rig.deliver(early[1], to: \.server), "and once only")
    rig.pass(.seconds(30))
    rig.flush(\.server)
    #expect(rig.server.protection.former == nil)
    let tried = rig.server.protection.tried
    #expect(!rig.deliver(early[1], to: \.server))
    #expect(rig.server.protection.tried == tried, "nothing is tried without a key")
  }

  /// The peer changed twice before it could know of the first: dropped, counted, and the session goes on.
  @Test func aPeerThatChangesTooSoonIsNotFollowed() {
    let rig = ChannelRig(limits: KeyLimits(phaseDatagrams: 1))
    rig.send(1, from: \.client)
    rig.exchange()
    let before = rig.server.channel.counters.keyChangesOfPeer
    // The client is made to believe that each of its datagrams was receipted.
    for _ in 0..<3 {
      rig.send(1, from: \.client)
      rig.client.channel.phases.receipted(upTo: rig.client.channel.sent.nextNumber - 1)
    }
    let sent = rig.take(\.client)
    #expect(Set(sent.map { $0[1] }) == [0, 1])
    for datagram in sent { rig.deliver(datagram, to: \.server) }
    let counters = rig.server.channel.counters
    #expect(counters.keyChangesOfPeer == before + 1)
    #expect(counters.keyChangesTooSoon == 1, "\(counters)")
    #expect(rig.server.channel.path == .up)
  }

  /// Junk from addresses that are not proven is tried a thousand times, then only as often as time allows; what comes from
  /// the proven one is always tried.
  @Test func junkFromUnprovenAddressesIsTriedSeldom() {
    let rig = ChannelRig(limits: KeyLimits())
    rig.send(3, from: \.client)
    let good = rig.take(\.client)
    // Of a number that is never taken in: one that was is not tried at all.
    var bad = good[2]
    bad[bad.count - 1] ^= 1
    for _ in 0..<20_000 { rig.deliver(bad, to: \.server, isProven: false) }
    #expect(rig.server.protection.tried == 1000)
    #expect(rig.server.channel.counters.datagramsUntried == 19_000)
    #expect(!rig.deliver(good[0], to: \.server, isProven: false))
    #expect(rig.deliver(good[0], to: \.server, isProven: true))
    rig.pass(.milliseconds(10))
    #expect(rig.deliver(good[1], to: \.server, isProven: false))
    for _ in 0..<100 { rig.deliver(bad, to: \.server, isProven: false) }
    // 1000, the two good ones, and ten for 10 ms.
    #expect(rig.server.protection.tried == 1012)
    rig.pass(.seconds(3600))
    for _ in 0..<5000 { rig.deliver(bad, to: \.server, isProven: false) }
    #expect(rig.server.protection.tried == 2012)
  }

  /// Recorded traffic, as it was and bent, from whatever address: no copy is opened, so that playing it again costs next
  /// to nothing.
  @Test(arguments: [true, false]) func recordingsAreNotOpened(isProven: Bool) {
    let rig = ChannelRig(limits: KeyLimits())
    let sealing = NumberedProtection(isServer: false)
    func datagram(_ number: UInt64) -> [UInt8] {
      var bytes: [UInt8] = []
      DatagramHeader(connectionId: 7, packetNumber: number).append(to: &bytes)
      PacketWriter.append(.ping, to: &bytes) { _ in }
      sealing.seal(&bytes, packetNumber: number)
      return bytes
    }
    let recorded = (0..<1100).map { datagram($0) }
    // The first of them comes too late to be told from a copy.
    for datagram in recorded.dropFirst() { #expect(rig.deliver(datagram, to: \.server)) }
    let tried = rig.server.protection.tried
    #expect(tried == recorded.count - 1)
    for datagram in recorded {
      var otherPhase = datagram
      otherPhase[1] ^= 1
      var otherTag = datagram
      otherTag[otherTag.count - 1] ^= 1
      for copy in [datagram, otherPhase, otherTag] {
        #expect(!rig.deliver(copy, to: \.server, isProven: isProven))
      }
    }
    #expect(rig.server.protection.tried == tried)
    let counters = rig.server.channel.counters
    #expect(counters.datagramsReplayed == UInt64(3 * recorded.count) && counters.datagramsForged == 0)
    #expect(rig.deliver(datagram(1100), to: \.server, isProven: isProven))
  }

  /// Junk in an honest client's name, and from everywhere else, costs it nothing that it can notice.
  @Test func aFloodDoesNotShutOutTheProvenAddress() {
    let rig = ChannelRig(limits: KeyLimits())
    for _ in 0..<100 {
      rig.send(1, from: \.client)
      let good = rig.take(\.client)[0]
      var bad = good
      bad[bad.count - 1] ^= 1
      for _ in 0..<100 {
        rig.deliver(bad, to: \.server, isProven: false)
        rig.deliver(bad, to: \.server, isProven: true)
      }
      #expect(rig.deliver(good, to: \.server))
    }
    #expect(rig.server.channel.counters.datagramsReceived == 100)
  }
}
