import SimpIO
import Testing

@Suite struct RandomBytesTests {
  @Test func noTwoAreAlike() {
    let many = (0..<100).map { _ in RandomBytes.bytes(16) }
    #expect(Set(many).count == 100)
    #expect(many.allSatisfy { $0.count == 16 })
    #expect(RandomBytes.bytes(0) == [])
    #expect(Set((0..<100).map { _ in RandomBytes.uint64() }).count == 100)
    var bytes = [UInt8](repeating: 0, count: 64)
    var span = bytes.mutableSpan
    RandomBytes.fill(&span)
    #expect(Set(bytes).count > 20)
  }
}
