import Testing

@testable import SimpTool

struct LineSplitterTests {
  private typealias Line = LineSplitter.Line

  /// All lines of `bytes`, given in pieces of `size`.
  private func split(_ bytes: [UInt8], by size: Int) -> [Line] {
    var splitter = LineSplitter()
    var lines: [Line] = []
    var rest = bytes[...]
    while !rest.isEmpty {
      lines += splitter.take(Array(rest.prefix(size)))
      rest = rest.dropFirst(size)
    }
    if let last = splitter.finish() { lines.append(last) }
    return lines
  }

  @Test(arguments: [1, 2, 3, 7, 1000])
  func piecesDoNotMatter(size: Int) {
    let text = "one\n\n  three \nvier ä 👋\r\n\nlast"
    #expect(
      split(Array(text.utf8), by: size) == ["one", "", "  three ", "vier ä 👋\r", "", "last"].map(Line.text))
  }

  @Test func theLastNewlineMakesNoLine() {
    #expect(split(Array("a\n".utf8), by: 10) == [.text("a")])
    #expect(split(Array("\n".utf8), by: 10) == [.text("")])
    #expect(split([], by: 10) == [])
  }

  @Test func whatIsNoTextIsMarkedAndTheRestGoesOn() {
    #expect(split([0xFF, 0x0A, 0x61, 0x0A], by: 1) == [.unusable("not UTF-8"), .text("a")])
  }

  @Test func anOverlongLineIsCutOffWithoutBeingKept() {
    let limit = LineSplitter.maximumBytes
    let fits = [UInt8](repeating: 0x61, count: limit)
    #expect(split(fits + [0x0A], by: 65_536) == [.text(String(repeating: "a", count: limit))])
    let lines = split(fits + fits + fits + [0x0A, 0x62], by: 65_536)
    #expect(lines == [.unusable("longer than \(limit) bytes"), .text("b")])
  }
}
