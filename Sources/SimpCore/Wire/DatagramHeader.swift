/// The clear 16 bytes before each sealed datagram (wire document, "Datagrams").
public struct DatagramHeader: Hashable, Sendable {
  /// 48 bits; the highest 8 name the reactor that owns the session.
  public var connectionId: UInt64
  /// From 0, never twice under a key.
  public var packetNumber: UInt64

  public init(connectionId: UInt64, packetNumber: UInt64) {
    self.connectionId = connectionId
    self.packetNumber = packetNumber
  }

  /// Reads the header of a datagram, nil when it is too short to be sealed, of another kind, or has bits set that
  /// this version does not know (a key phase other than 0 among them).
  public init?(reading datagram: Span<UInt8>) {
    guard datagram.count >= WireLimits.datagramHeaderBytes + WireLimits.datagramTagBytes else { return nil }
    guard datagram[0] == 1, datagram[1] == 0 else { return nil }
    connectionId = datagram.bigEndian64(at: 0) & 0xFFFF_FFFF_FFFF
    packetNumber = datagram.bigEndian64(at: 8)
  }

  func append(to bytes: inout [UInt8]) {
    bytes.appendBigEndian(1 << 56 | connectionId & 0xFFFF_FFFF_FFFF)
    bytes.appendBigEndian(packetNumber)
  }
}
