import CSimpLinux
import SimpCore
import Testing

@testable import SimpIO

/// Published examples, so that both ends of the wire may be anyone's.
@Suite struct KeyVectorTests {
  /// RFC 5869, appendix A.1 to A.3.
  @Test func hkdfOfRFC5869() {
    let short = [UInt8](repeating: 0x0B, count: 22)
    #expect(
      derive(secret: short, salt: Array(0...0x0C), info: Array(0xF0...0xF9), count: 42)
        == [UInt8](
          hex: "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"))
    #expect(
      derive(secret: Array(0...0x4F), salt: Array(0x60...0xAF), info: Array(0xB0...0xFF), count: 82)
        == [UInt8](
          hex: """
            b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09
            da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87
            """))
    #expect(
      derive(secret: short, info: [], count: 42)
        == [UInt8](
          hex: "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"))
  }

  private func derive(secret: [UInt8], salt: [UInt8] = [], info: [UInt8], count: Int) -> [UInt8] {
    var out = [UInt8](repeating: 0, count: count)
    unsafe HKDF.derive(secret: secret, secretCount: secret.count, salt: salt, info: info, out: &out, count: count)
    return out
  }

  private struct Vector: Sendable {
    var cipher: Int32
    var key, nonce, data, plain, sealed: String
  }

  private static let vectors = [
    // "The Galois/Counter Mode of Operation", test case 4.
    Vector(
      cipher: 1, key: "feffe9928665731c6d6a8f9467308308", nonce: "cafebabefacedbaddecaf888",
      data: "feedfacedeadbeeffeedfacedeadbeefabaddad2",
      plain: """
        d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525
        b16aedf5aa0de657ba637b39
        """,
      sealed: """
        42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa05
        1ba30b396a0aac973d58e0915bc94fbc3221a5db94fae95ae7121a47
        """),
    // RFC 8439, section 2.8.2.
    Vector(
      cipher: 2, key: "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
      nonce: "070000004041424344454647", data: "50515253c0c1c2c3c4c5c6c7",
      plain: """
        4c616469657320616e642047656e746c656d656e206f662074686520636c617373206f66202739393a20496620
        4920636f756c64206f6666657220796f75206f6e6c79206f6e652074697020666f7220746865206675747572652c2073
        756e73637265656e20776f756c642062652069742e
        """,
      sealed: """
        d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b
        1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc
        3ff4def08e4b7a9de576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691
        """),
  ]

  @Test func ciphersAgreeWithTheirDocuments() {
    for vector in Self.vectors {
      let (key, nonce, data) = ([UInt8](hex: vector.key), [UInt8](hex: vector.nonce), [UInt8](hex: vector.data))
      let plain = [UInt8](hex: vector.plain)
      let expected = [UInt8](hex: vector.sealed)
      var text = plain
      var tag = [UInt8](repeating: 0, count: 16)
      let sealing = unsafe simp_aead_new(vector.cipher, 1, key)
      let opening = unsafe simp_aead_new(vector.cipher, 0, key)
      defer {
        unsafe simp_aead_free(sealing)
        unsafe simp_aead_free(opening)
      }
      let isSealed = unsafe simp_aead_seal(sealing, nonce, data, data.count, &text, text.count, &tag)
      #expect(isSealed == 1)
      #expect(text + tag == expected)
      let isOpened = unsafe simp_aead_open(opening, nonce, data, data.count, &text, text.count, tag)
      #expect(isOpened == 1)
      #expect(text == plain)
    }
  }

  /// The examples of the wire document: secret 00 01 … 1f, one PING and one MESSAGE.
  @Test func datagramsAgreeWithTheWireDocument() {
    let secret = [UInt8](0..<32)
    let header = "0100000102030405 0102030405060708"
    let packets = """
      00000010000100000001000300000000 00000038000100040002000100000000
      108180808080e00118 80d0eab6b733 220568656c6c6f3a03626f6240015801 610100000000000000
      """
    let sealed = [
      AEADProtection.aes128GCM: """
      bc0d5fd45002ceaf7c02b97ac727de3b 9cc5513ea78c9c6a2a4dc1d2ac0f1259 fc639bed7dafcd0d1878e444b5279cf7
      f39e322353b7198d12a5c2ca4a57c6cd cff1da434df29cf5 1ab1972380b5f1685362f8568d97e523
      """,
      AEADProtection.chaCha20Poly1305: """
      c76bacdc4e78ebb73fc14d98e98a2847 794145f01eb2ba2c6a73c1bc598d15f6 10d037308fb786e8a2cf36946bd0d0d3
      ba5fc98492de4db0915cc9bc9da66a3e 60499bc9a9819915 84dc08148ae25c6f43234bc7716302ce
      """,
    ]
    let sealedNext = [
      AEADProtection.aes128GCM: """
      91c989f36bd54b6b8f4e7b80637c5271f8dfbd9855dcae6f2d28fc79ecb2eeadcd71fe428bf58b77c93cba2d051d63d1
      faddf83df7a4f6aa6c286765934ce0c61d8f2b99719c0956e9bdc5a558ea9df12954b8a5a09d125b
      """,
      AEADProtection.chaCha20Poly1305: """
      3b6eb385a1d7ec63fb8a8354a5f05a91277df563a9d5411bccdb9ed82e3dce4f6e4208614af3313ff84dcd0da7d7dd0a
      7f385fc53bb8654ad2ce2e4fc8af624820d779cd17cb31fca0283fb87a43a25e4a6d3e3d4a6964c2
      """,
    ]
    for (cipher, text) in sealed {
      let isServer = cipher == AEADProtection.chaCha20Poly1305
      var datagram = [UInt8](hex: header + packets)
      let sealing = AEADProtection(secret: secret, cipher: cipher, isServer: isServer)
      sealing.seal(&datagram, packetNumber: 0x0102_0304_0506_0708)
      #expect(datagram == [UInt8](hex: header + text))
      var span = datagram.mutableSpan
      let peer = AEADProtection(secret: secret, cipher: cipher, isServer: !isServer)
      #expect(peer.open(&span, packetNumber: 0x0102_0304_0506_0708, with: .present))
      #expect(Array(datagram.dropLast(16)) == [UInt8](hex: header + packets))
      // The next key phase, packet number one higher.
      let headerNext = "0101000102030405 0102030405060709"
      var following = [UInt8](hex: headerNext + packets)
      sealing.changeSealingKey()
      sealing.seal(&following, packetNumber: 0x0102_0304_0506_0709)
      #expect(following == [UInt8](hex: headerNext + (sealedNext[cipher] ?? "")))
      var next = following.mutableSpan
      #expect(peer.open(&next, packetNumber: 0x0102_0304_0506_0709, with: .next))
      #expect(Array(following.dropLast(16)) == [UInt8](hex: headerNext + packets))
    }
  }
}
