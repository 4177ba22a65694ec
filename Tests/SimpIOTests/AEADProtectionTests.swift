import SimpCore
import Testing

@testable import SimpIO

@Suite struct AEADProtectionTests {
  static let secret = (0..<32).map { UInt8($0) }

  /// What the kernel says of the processor.
  @Test func theFasterSuiteComesFirst() throws {
    let words = Set(try readFile("/proc/cpuinfo").split { $0.isWhitespace })
    let hasAES = words.contains("aes") && (words.contains("pclmulqdq") || words.contains("pmull"))
    #expect(AEADProtection.preference == (hasAES ? [1, 2] : [2, 1]))
  }

  @Test(arguments: [AEADProtection.aes128GCM, AEADProtection.chaCha20Poly1305])
  func whatOneSealsTheOtherOpens(cipher: UInt32) throws {
    let client = AEADProtection(secret: Self.secret, cipher: cipher, isServer: false)
    let server = AEADProtection(secret: Self.secret, cipher: cipher, isServer: true)
    for number in [0, 1, 255, 256, UInt64.max] {
      let plain = (0..<100).map { UInt8($0) }
      var datagram = plain
      client.seal(&datagram, packetNumber: number)
      #expect(datagram.count == 116)
      #expect(Array(datagram[..<16]) == Array(plain[..<16]))
      #expect(Array(datagram[16..<100]) != Array(plain[16...]))
      var span = datagram.mutableSpan
      #expect(server.open(&span, packetNumber: number, with: .present))
      #expect(Array(datagram[..<100]) == plain)
    }
  }

  @Test(arguments: [AEADProtection.aes128GCM, AEADProtection.chaCha20Poly1305])
  func everyChangedByteIsNoticed(cipher: UInt32) throws {
    let client = AEADProtection(secret: Self.secret, cipher: cipher, isServer: false)
    let server = AEADProtection(secret: Self.secret, cipher: cipher, isServer: true)
    var sealed = (0..<48).map { UInt8($0) }
    client.seal(&sealed, packetNumber: 7)
    for position in sealed.indices {
      var copy = sealed
      copy[position] ^= 1
      var span = copy.mutableSpan
      #expect(!server.open(&span, packetNumber: 7, with: .present), "byte \(position)")
    }
    for count in 0..<sealed.count {
      var copy = Array(sealed[..<count])
      var span = copy.mutableSpan
      #expect(!server.open(&span, packetNumber: 7, with: .present), "cut to \(count)")
    }
    var copy = sealed
    var span = copy.mutableSpan
    #expect(!server.open(&span, packetNumber: 8, with: .present), "another packet number")
    // A refusal leaves the context fit for use.
    var again = sealed
    var good = again.mutableSpan
    #expect(server.open(&good, packetNumber: 7, with: .present))
  }

  @Test func directionsHaveDifferentKeys() {
    let client = AEADProtection(secret: Self.secret, cipher: 1, isServer: false)
    var sealed = [UInt8](repeating: 9, count: 40)
    client.seal(&sealed, packetNumber: 0)
    var span = sealed.mutableSpan
    #expect(!client.open(&span, packetNumber: 0, with: .present))
  }

  @Test func nothingButTheHeaderIsSealedToo() {
    let client = AEADProtection(secret: Self.secret, cipher: 1, isServer: false)
    let server = AEADProtection(secret: Self.secret, cipher: 1, isServer: true)
    var sealed = [UInt8](repeating: 1, count: 16)
    client.seal(&sealed, packetNumber: 3)
    #expect(sealed.count == 32)
    var span = sealed.mutableSpan
    #expect(server.open(&span, packetNumber: 3, with: .present))
  }

  /// Phase after phase, both suites: the former key, the present one, the next one, and none of them twice.
  @Test(arguments: [AEADProtection.aes128GCM, AEADProtection.chaCha20Poly1305])
  func keysOfPhasesAreHeldAndForgotten(cipher: UInt32) {
    let client = AEADProtection(secret: Self.secret, cipher: cipher, isServer: false)
    let server = AEADProtection(secret: Self.secret, cipher: cipher, isServer: true)
    func sealed(_ number: UInt64) -> [UInt8] {
      var datagram = [UInt8](repeating: UInt8(number), count: 40)
      client.seal(&datagram, packetNumber: number)
      return datagram
    }
    func opens(_ datagram: [UInt8], _ number: UInt64, _ key: OpeningKey) -> Bool {
      var copy = datagram
      var span = copy.mutableSpan
      return server.open(&span, packetNumber: number, with: key)
    }
    let phases = (0..<4).map { phase in
      if phase > 0 { client.changeSealingKey() }
      return sealed(UInt64(phase))
    }
    #expect(!opens(phases[0], 0, .former), "there is none yet")
    for phase in 0..<3 {
      #expect(opens(phases[phase], UInt64(phase), .present))
      #expect(!opens(phases[phase], UInt64(phase), .next))
      #expect(opens(phases[phase + 1], UInt64(phase + 1), .next))
      #expect(!opens(phases[phase + 1], UInt64(phase + 1), .present))
      server.changeOpeningKey()
      #expect(opens(phases[phase], UInt64(phase), .former))
    }
    server.forgetFormerKey()
    #expect(!opens(phases[2], 2, .former))
    #expect(opens(phases[3], 3, .present))
  }

  /// However much junk asks for the next key, it is derived once in a phase.
  @Test func junkCostsOneDerivation() {
    let client = AEADProtection(secret: Self.secret, cipher: 1, isServer: false)
    let server = AEADProtection(secret: Self.secret, cipher: 1, isServer: true)
    #expect(server.derivations == 2)
    for number: UInt64 in 0..<1000 {
      var junk = [UInt8](repeating: 7, count: 60)
      var span = junk.mutableSpan
      #expect(!server.open(&span, packetNumber: number, with: .next))
    }
    #expect(server.derivations == 3)
    client.changeSealingKey()
    var sealed = [UInt8](repeating: 9, count: 40)
    client.seal(&sealed, packetNumber: 5)
    var span = sealed.mutableSpan
    #expect(server.open(&span, packetNumber: 5, with: .next))
    server.changeOpeningKey()
    #expect(server.derivations == 3, "the change uses what was derived")
  }

  /// Each secret, each derived key and IV is overwritten when it goes: with its phase, or with the session.
  @Test(arguments: [AEADProtection.aes128GCM, AEADProtection.chaCha20Poly1305])
  func secretsAreWiped(cipher: UInt32) {
    var released: [[UInt8]] = []
    var server: AEADProtection? = AEADProtection(
      secret: Self.secret, cipher: cipher, isServer: true, onRelease: { released.append($0) })
    // The keys themselves went into OpenSSL's contexts, and the login's secret into them.
    let key = cipher == AEADProtection.aes128GCM ? 16 : 32
    #expect(released.map(\.count).sorted() == [key, key, 32].sorted())
    server?.changeSealingKey()
    server?.changeOpeningKey()
    server?.forgetFormerKey()
    let before = released.count
    server = nil
    // An IV and the secret of the next phase in each direction.
    #expect(released.suffix(from: before).map(\.count).sorted() == [12, 12, 32, 32])
    #expect(released.allSatisfy { $0.allSatisfy { $0 == 0 } })
  }
}
