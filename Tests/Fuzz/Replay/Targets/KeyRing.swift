import SimpIO

@testable import SimpCore

/// The real suites with their keys of four phases made once, so that an input costs no derivation.
final class KeyRing: DatagramProtection {
  struct Suite {
    let isChaCha: Bool
    fileprivate var keys: Keys { isChaCha ? Self.chaCha : Self.aes }

    private static let aes = Keys(AEADProtection.aes128GCM)
    private static let chaCha = Keys(AEADProtection.chaCha20Poly1305)

    /// Seals as the client does; reflected: as the server does.
    func seal(_ datagram: inout [UInt8], _ number: UInt64, phase: UInt64, isReflected: Bool) {
      let ends = isReflected ? keys.servers : keys.clients
      ends[Int(phase)].seal(&datagram, packetNumber: number)
    }
  }

  /// `@unchecked Sendable`: made once, and used by the one thread that runs a target at a time. A present key keeps no
  /// state between datagrams.
  fileprivate final class Keys: @unchecked Sendable {
    let clients: [AEADProtection]
    let servers: [AEADProtection]

    init(_ cipher: UInt32) {
      func end(isServer: Bool, phase: Int) -> AEADProtection {
        let end = AEADProtection(secret: [UInt8](repeating: 7, count: 32), cipher: cipher, isServer: isServer)
        for _ in 0..<phase {
          end.changeSealingKey()
          end.changeOpeningKey()
        }
        return end
      }
      clients = (0..<4).map { end(isServer: false, phase: $0) }
      servers = (0..<6).map { end(isServer: true, phase: $0) }
    }
  }

  private let keys: Keys
  private var phase = 0

  init(_ suite: Suite) { keys = suite.keys }

  func seal(_ datagram: inout [UInt8], packetNumber: UInt64) {
    keys.servers[0].seal(&datagram, packetNumber: packetNumber)
  }

  func open(_ datagram: inout MutableSpan<UInt8>, packetNumber: UInt64, with key: OpeningKey) -> Bool {
    let tried =
      switch key {
      case .former: phase - 1
      case .present: phase
      case .next: phase + 1
      }
    guard keys.servers.indices.contains(tried) else { return false }
    return keys.servers[tried].open(&datagram, packetNumber: packetNumber, with: .present)
  }

  func changeSealingKey() {}
  func changeOpeningKey() { phase += 1 }
  func forgetFormerKey() {}
}
