import Testing

@testable import SimpCore

@Suite struct TextTests {
  /// Well-formed and not, at the edges of each row of the Unicode standard's table 3-7.
  private static let corpus: [([UInt8], Bool)] = [
    ([], true), ([0x01], true), ([0x7F], true), ([0x00], false), ([0x61, 0x00], false), ([0x80], false),
    ([0xBF], false), ([0xC0, 0x80], false), ([0xC1, 0xBF], false), ([0xC2, 0x80], true), ([0xC2, 0x7F], false),
    ([0xC2, 0xC0], false), ([0xDF, 0xBF], true), ([0xDF], false), ([0xE0, 0x9F, 0xBF], false),
    ([0xE0, 0xA0, 0x80], true), ([0xE0, 0xA0], false), ([0xE1, 0x80, 0x7F], false), ([0xEC, 0xBF, 0xBF], true),
    ([0xED, 0x9F, 0xBF], true), ([0xED, 0xA0, 0x80], false), ([0xED, 0xBF, 0xBF], false), ([0xEE, 0x80, 0x80], true),
    ([0xEF, 0xBF, 0xBF], true), ([0xF0, 0x8F, 0xBF, 0xBF], false), ([0xF0, 0x90, 0x80, 0x80], true),
    ([0xF0, 0x90, 0x80], false), ([0xF3, 0xBF, 0xBF, 0xBF], true), ([0xF4, 0x8F, 0xBF, 0xBF], true),
    ([0xF4, 0x90, 0x80, 0x80], false), ([0xF5, 0x80, 0x80, 0x80], false), ([0xFE], false), ([0xFF], false),
    ([0xF0, 0x9F, 0x98, 0x80, 0x21], true), ([0xF0, 0x9F, 0x98, 0x21], false),
  ]

  @Test func theCorpus() {
    for (bytes, isValid) in Self.corpus {
      #expect(Text.isValid(bytes.span) == isValid, "\(bytes)")
      #expect(Text.isValid((Array("ab".utf8) + bytes).span) == isValid, "behind text: \(bytes)")
    }
  }

  /// The standard library judges alike, but for U+0000.
  @Test func randomBytesAreJudgedAsTheStandardLibraryDoes() {
    var random = Seeded(3)
    for _ in 0..<20_000 {
      let bytes = (0..<Int(random.next() % 6)).map { _ in
        let byte = UInt8(truncatingIfNeeded: random.next())
        return byte & 1 == 0 ? byte : byte | 0x80
      }
      let isText = String(validating: bytes, as: UTF8.self) != nil
      #expect(Text.isValid(bytes.span) == (isText && !bytes.contains(0)), "\(bytes)")
    }
  }

  @Test func names() {
    let good = ["a", "Z", "0", "alice", "a.b_c@d-e", String(repeating: "x", count: 64)]
    let bad = ["", " ", "a b", "a/b", "ä", "a\0", "{u:a}", "a\n", "a,b", String(repeating: "x", count: 65)]
    for name in good { #expect(Text.isUserName(name), "\(name)") }
    for name in bad { #expect(!Text.isUserName(name), "\(name)") }
    let allowed = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._@-".utf8)
    for byte in UInt8.min...UInt8.max { #expect(Text.isUserName([byte].span) == allowed.contains(byte), "\(byte)") }
  }
}
