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
    Self.appendTag(isServer: isServer, phase: sealingPhase, to: &datagram)
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
    return Self.hasTag(datagram.span, isServer: !isServer, phase: phase)
  }

  static func appendTag(isServer: Bool, phase: UInt8, to datagram: inout [UInt8]) {
    datagram.append(phase)
    for _ in 1..<WireLimits.datagramTagBytes { datagram.append(filler(isServer)) }
  }

  private static func filler(_ isServer: Bool) -> UInt8 { isServer ? 0x5E : 0xC1 }

  private static func hasTag(_ datagram: Span<UInt8>, isServer: Bool, phase: UInt8) -> Bool {
    let start = datagram.count - WireLimits.datagramTagBytes
    guard datagram[start] == phase else { return false }
    for index in start + 1..<datagram.count where datagram[index] != filler(isServer) { return false }
    return true
  }

  /// Looks at each packet of a datagram that the library sealed.
  ///
  /// - Returns: the datagram's number.
  static func packets(
    in datagram: Span<UInt8>, fromServer: Bool, look: (PacketHeader, Span<UInt8>) throws -> Void
  ) throws -> UInt64 {
    try require(datagram.count <= WireLimits.maximumDatagramBytes, "a datagram of \(datagram.count) bytes")
    guard let header = DatagramHeader(reading: datagram) else { throw Violation(description: "no datagram left") }
    let end = datagram.count - WireLimits.datagramTagBytes
    let phase = datagram[end]
    try require(
      hasTag(datagram, isServer: fromServer, phase: phase) && header.isOddPhase == (phase & 1 == 1), "badly sealed")
    try require(end > WireLimits.datagramHeaderBytes, "an empty datagram left")
    try require(header.connectionId == ServerRig.connectionId, "another connection id")
    try Packets.split(datagram.extracting(WireLimits.datagramHeaderBytes..<end), look: look)
    return header.packetNumber
  }
}
