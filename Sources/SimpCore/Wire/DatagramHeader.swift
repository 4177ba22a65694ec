/// The clear 16 bytes before each sealed datagram (wire document, "Datagrams").
public struct DatagramHeader: Hashable, Sendable {
  // The first eight bytes but the kind: a key phase of one bit above 48 bits of connection id.
  private var first: UInt64
  /// From 0, never twice under a key.
  public var packetNumber: UInt64

  /// - Parameter isOddPhase: the lowest bit of the key phase's number.
  public init(connectionId: UInt64, packetNumber: UInt64, isOddPhase: Bool = false) {
    first = connectionId & 0xFFFF_FFFF_FFFF | (isOddPhase ? 1 << 48 : 0)
    self.packetNumber = packetNumber
  }

  /// Reads the header of a datagram, nil when it is too short to be sealed, of another kind, or has bits set that
  /// this version does not know.
  public init?(reading datagram: Span<UInt8>) {
    guard datagram.count >= WireLimits.datagramHeaderBytes + WireLimits.datagramTagBytes else { return nil }
    guard datagram[0] == 1, datagram[1] <= 1 else { return nil }
    first = datagram.bigEndian64(at: 0) & 0x1_FFFF_FFFF_FFFF
    packetNumber = datagram.bigEndian64(at: 8)
  }

  /// 48 bits; the highest 8 name the reactor that owns the session.
  public var connectionId: UInt64 { first & 0xFFFF_FFFF_FFFF }
  public var isOddPhase: Bool { first >> 48 == 1 }

  func append(to bytes: inout [UInt8]) {
    bytes.appendBigEndian(1 << 56 | first)
    bytes.appendBigEndian(packetNumber)
  }
}
