import SimpCore
import Testing

@testable import SimpBench

struct PayloadTests {
  private let payload = Payload(
    run: 0xABCDEF, sender: 0xFFFFFF, conversation: 3, number: 1 << 47, due: Instant(nanoseconds: .max), lag: 123_456_789
  )

  @Test(arguments: [46, 47, 128, 65_536])
  func comesBackAsItWas(size: Int) {
    let text = payload.text(size: size)
    #expect(text.utf8.count == size)
    #expect(Payload(reading: text) == payload)
  }

  @Test func anyBrokenByteShows() {
    let bytes = Array(payload.text(size: 64).utf8)
    for place in bytes.indices {
      for bit: UInt8 in [1, 2, 4, 8, 16, 32] {
        var broken = bytes
        broken[place] ^= bit
        #expect(Payload(reading: String(decoding: broken, as: UTF8.self)) == nil, "byte \(place), bit \(bit)")
      }
    }
  }

  @Test func cutLengthenedOrForeignTextsAreNone() {
    let text = payload.text(size: 64)
    #expect(Payload(reading: String(text.dropLast())) == nil)
    #expect(Payload(reading: text + "0") == nil)
    #expect(Payload(reading: "") == nil)
    #expect(Payload(reading: String(repeating: "ä", count: 40)) == nil)
  }

  @Test func aLagTooLongToWriteIsWrittenAsTheLongest() throws {
    var late = payload
    late.lag = 1 << 50
    let read = try #require(Payload(reading: late.text(size: 46)))
    #expect(read.lag == UInt64(1) << 42 - 1)
  }
}
