@testable import SimpCore

/// Stands in for the keys where they are not the matter: hides nothing, and its tag is quick to make and to miss. The
/// directions differ, and no number is sealed twice.
final class OpenProtection: DatagramProtection {
  private let isServer: Bool
  private var lastSealed: UInt64?
  private var sealingPhase: UInt8 = 0
  private var openingPhase: UInt8 = 0
  private var hasFormer = false

  init(isServer: Bool) { self.isServer = isServer }

  func seal(_ datagram: inout [UInt8], packetNumber: UInt64) {
    precondition(lastSealed.map { packetNumber > $0 } ?? true, "a packet number is used twice under a key")
    lastSealed = packetNumber
    datagram += Self.tag(isServer: isServer, phase: sealingPhase)
  }

  func changeSealingKey() { sealingPhase &+= 1 }

  func changeOpeningKey() {
    openingPhase &+= 1
    hasFormer = true
  }

  func forgetFormerKey() { hasFormer = false }

  func open(_ datagram: inout MutableSpan<UInt8>, packetNumber: UInt64, with key: OpeningKey) -> Bool {
    guard datagram.count >= 32, key != .former || hasFormer else { return false }
    let phase =
      switch key {
      case .former: openingPhase &- 1
      case .present: openingPhase
      case .next: openingPhase &+ 1
      }
    let tag = Self.tag(isServer: !isServer, phase: phase)
    for index in 0..<16 where datagram[datagram.count - 16 + index] != tag[index] { return false }
    return true
  }

  static func tag(isServer: Bool, phase: UInt8) -> [UInt8] {
    [phase] + [UInt8](repeating: isServer ? 0x5E : 0xC1, count: 15)
  }

  /// Cuts a datagram that the library sealed into its packets.
  static func packets(
    in datagram: Span<UInt8>, fromServer: Bool
  ) throws -> (number: UInt64, packets: [(header: PacketHeader, payload: [UInt8])]) {
    try require(datagram.count <= WireLimits.maximumDatagramBytes, "a datagram of \(datagram.count) bytes")
    guard let header = DatagramHeader(reading: datagram) else { throw Violation(description: "no datagram left") }
    let end = datagram.count - WireLimits.datagramTagBytes
    let tag = [UInt8](datagram.extracting(end..<datagram.count))
    try require(
      tag == Self.tag(isServer: fromServer, phase: tag[0]) && header.isOddPhase == (tag[0] & 1 == 1), "badly sealed")
    let plain = [UInt8](datagram.extracting(WireLimits.datagramHeaderBytes..<end))
    try require(!plain.isEmpty, "an empty datagram left")
    try require(header.connectionId == ServerRig.connectionId, "another connection id")
    return (header.packetNumber, try Packets.split(plain))
  }
}
