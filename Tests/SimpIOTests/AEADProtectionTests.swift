import SimpCore
import Testing

@testable import SimpIO

@Suite struct AEADProtectionTests {
  static let secret = (0..<32).map { UInt8($0) }

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
      #expect(server.open(&span, packetNumber: number))
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
      #expect(!server.open(&span, packetNumber: 7), "byte \(position)")
    }
    for count in 0..<sealed.count {
      var copy = Array(sealed[..<count])
      var span = copy.mutableSpan
      #expect(!server.open(&span, packetNumber: 7), "cut to \(count)")
    }
    var copy = sealed
    var span = copy.mutableSpan
    #expect(!server.open(&span, packetNumber: 8), "another packet number")
    // A refusal leaves the context fit for use.
    var again = sealed
    var good = again.mutableSpan
    #expect(server.open(&good, packetNumber: 7))
  }

  @Test func directionsHaveDifferentKeys() {
    let client = AEADProtection(secret: Self.secret, cipher: 1, isServer: false)
    var sealed = [UInt8](repeating: 9, count: 40)
    client.seal(&sealed, packetNumber: 0)
    var span = sealed.mutableSpan
    #expect(!client.open(&span, packetNumber: 0))
  }

  @Test func nothingButTheHeaderIsSealedToo() {
    let client = AEADProtection(secret: Self.secret, cipher: 1, isServer: false)
    let server = AEADProtection(secret: Self.secret, cipher: 1, isServer: true)
    var sealed = [UInt8](repeating: 1, count: 16)
    client.seal(&sealed, packetNumber: 3)
    #expect(sealed.count == 32)
    var span = sealed.mutableSpan
    #expect(server.open(&span, packetNumber: 3))
  }
}
