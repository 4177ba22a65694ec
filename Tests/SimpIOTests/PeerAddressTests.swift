import SimpCore
import Testing

@testable import SimpIO

@Suite struct PeerAddressTests {
  @Test(arguments: [
    ("127.0.0.1", "127.0.0.1:5"), ("::1", "[::1]:5"), ("[::1]", "[::1]:5"), ("::ffff:10.1.2.3", "10.1.2.3:5"),
    ("[2001:db8::42]", "[2001:db8:0:0:0:0:0:42]:5"), ("255.255.255.255", "255.255.255.255:5"),
  ])
  func literalsAreRead(literal: String, text: String) {
    #expect(PeerAddress(literal: literal, port: 5)?.description == text)
  }

  @Test func aScopeIsRead() {
    let address = PeerAddress(literal: "fe80::1%lo", port: 5)
    #expect(address?.scope == 1)
    #expect(address?.high == 0xFE80_0000_0000_0000)
    #expect(address?.low == 1)
  }

  @Test(arguments: [
    "", "localhost", "127.1", "0x7f000001", "127.0.0.1 ", "[127.0.0.1]", "[::1", "::1]", "[]", "[[::1]]", "1.2.3.4.5",
    "256.1.1.1", "::1%no-such-interface", "::g", "127.0.0.1\0",
  ])
  func whatIsNoLiteralIsNot(text: String) {
    #expect(PeerAddress(literal: text, port: 5) == nil)
  }

  @Test func theKernelsFormKeepsEverything() {
    let address = PeerAddress(family: .v6, high: .max - 5, low: 3, port: 65535, scope: 7)
    #expect(PeerAddress(address.kernel) == address)
    #expect(PeerAddress.any(port: 1).description == "0.0.0.0:1")
    #expect(PeerAddress.any(.v6, port: 1).description == "[::]:1")
    #expect(PeerAddress.loopback(port: 1).isLoopback && PeerAddress.loopback(.v6, port: 1).isLoopback)
  }
}
