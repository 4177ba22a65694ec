/// What a packet asks for: a service and a command within it.
public enum Command: UInt32, Hashable, Sendable {
  case login = 0x1_0001
  case logout = 0x1_0002
  case ping = 0x1_0003
  case ended = 0x1_0004
  case pathChallenge = 0x1_0005
  case pathResponse = 0x1_0006
  case pathUp = 0x1_0007
  case probeRequest = 0x1_0008
  case renew = 0x1_0009
  case kick = 0x1_000A
  case counters = 0x1_000B
  case message = 0x2_0001
  case receipt = 0x3_0001

  var service: UInt16 { UInt16(rawValue >> 16) }
  var number: UInt16 { UInt16(truncatingIfNeeded: rawValue) }
}

/// The 16 bytes before each payload, on TCP and inside datagrams (wire document, "Packet header").
public struct PacketHeader: Hashable, Sendable {
  public struct Flags: OptionSet, Hashable, Sendable {
    public var rawValue: UInt16
    public init(rawValue: UInt16) { self.rawValue = rawValue }

    public static let response = Flags(rawValue: 1)
    public static let error = Flags(rawValue: 2)
    public static let receiptWanted = Flags(rawValue: 4)
    static let all: Flags = [.response, .error, .receiptWanted]
  }

  /// Total bytes, header included.
  public var length: UInt32
  public var flags: Flags
  public var service: UInt16
  public var number: UInt16
  public var sequence: UInt16

  /// The command, nil when this version does not know it.
  public var command: Command? { Command(rawValue: UInt32(service) << 16 | UInt32(number)) }

  /// Reads and checks the header in the first 16 bytes of `bytes`, which are there.
  ///
  /// - Parameter limit: the largest length in force, in bytes.
  /// - Throws: `badLength` first, so that nothing of a packet that is too long is kept; then `unsupportedVersion`,
  ///   `unknownFlags`, `reservedNotZero`.
  public init(reading bytes: Span<UInt8>, limit: Int) throws(WireError) {
    length = bytes.bigEndian32(at: 0)
    guard length >= UInt32(WireLimits.headerBytes), length <= UInt32(limit) else { throw .badLength(length) }
    let version = bytes.bigEndian16(at: 4)
    guard version == WireLimits.packetVersion else { throw .unsupportedVersion(version) }
    flags = Flags(rawValue: bytes.bigEndian16(at: 6))
    guard flags.isSubset(of: .all) else { throw .unknownFlags(flags.rawValue) }
    service = bytes.bigEndian16(at: 8)
    number = bytes.bigEndian16(at: 10)
    sequence = bytes.bigEndian16(at: 12)
    let reserved = bytes.bigEndian16(at: 14)
    guard reserved == 0 else { throw .reservedNotZero(reserved) }
  }
}

/// Writes packets at the end of a byte array.
public enum PacketWriter {
  /// Appends one packet; `payload` appends what follows the header.
  public static func append(
    _ command: Command, flags: PacketHeader.Flags = [], sequence: UInt16 = 0, to bytes: inout [UInt8],
    payload: (inout [UInt8]) -> Void
  ) {
    append(
      service: command.service, number: command.number, flags: flags, sequence: sequence, to: &bytes, payload: payload)
  }

  /// As above, for answering a command that this version does not know.
  public static func append(
    service: UInt16, number: UInt16, flags: PacketHeader.Flags, sequence: UInt16, to bytes: inout [UInt8],
    payload: (inout [UInt8]) -> Void
  ) {
    let start = bytes.count
    bytes.appendBigEndian(UInt32(0))
    bytes.appendBigEndian(WireLimits.packetVersion)
    bytes.appendBigEndian(flags.rawValue)
    bytes.appendBigEndian(service)
    bytes.appendBigEndian(number)
    bytes.appendBigEndian(sequence)
    bytes.appendBigEndian(UInt16(0))
    payload(&bytes)
    bytes.storeBigEndian(UInt32(bytes.count - start), at: start)
  }

  /// Sets "receipt wanted now" in the packet that starts at `offset`.
  static func wantReceipt(in bytes: inout [UInt8], packetAt offset: Int) {
    bytes[offset + 7] |= UInt8(PacketHeader.Flags.receiptWanted.rawValue)
  }
}
