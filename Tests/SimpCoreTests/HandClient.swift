import Testing

@testable import SimpCore

/// A client by hand, logged in.
final class HandClient {
  let rig = SessionRig()
  private let sealing = NumberedProtection(isServer: false)
  private var number: UInt64 = 0
  private(set) var now = SessionRig.start

  init() {
    rig.protection = NumberedProtection(isServer: true)
    _ = rig.packets(for: SessionRig.login)
  }

  func pass(_ time: Interval) { now = now + time }

  func datagram(_ packets: [UInt8]) -> [UInt8] {
    var bytes: [UInt8] = []
    DatagramHeader(connectionId: 7, packetNumber: number).append(to: &bytes)
    bytes += packets
    sealing.seal(&bytes, packetNumber: number)
    number += 1
    return bytes
  }

  @discardableResult
  func send(_ datagram: [UInt8], from address: PeerAddress) -> Bool {
    var copy = datagram
    var span = copy.mutableSpan
    return rig.session.receive(datagram: &span, from: address, now: now)
  }

  /// What leaves, by address.
  func flush() -> [(bytes: [UInt8], to: PeerAddress)] {
    var out: [([UInt8], PeerAddress)] = []
    rig.session.flush(now: now, streamRoom: 1 << 20) { datagram, address in
      out.append(((0..<datagram.count).map { datagram[$0] }, address))
    }
    return out
  }

  static func token(_ command: Command, _ token: UInt64, padding: Int = 0) -> [UInt8] {
    var bytes: [UInt8] = []
    PacketWriter.append(command, to: &bytes) { payload in
      payload.appendField(1, fixed64: token)
      if padding > 0 { payload.appendField(2, bytes: [UInt8](repeating: 0, count: padding)) }
    }
    return bytes
  }

  func prove(_ address: PeerAddress) {
    send(datagram(Self.token(.pathChallenge, 9, padding: 1140)), from: address)
    _ = flush()
    // The rig draws 4, and tokens are odd.
    send(datagram(Self.token(.pathResponse, 5)), from: address)
    _ = flush()
    #expect(rig.session.path == .up && rig.session.provenAddress == address)
  }
}
