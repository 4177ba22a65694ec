import SimpSupport
import Testing

struct JSONTests {
  @Test func keepsTheOrderOfMembers() {
    let value = JSONValue.object([
      "b": .integer(-1), "a": .array([.null, .bool(true), .bool(false)]), "c": .object([:]),
    ])
    #expect(value.description == #"{"b":-1,"a":[null,true,false],"c":{}}"#)
  }

  @Test func escapesWhatWouldBreakAString() {
    #expect(JSONValue.string("a\"b\\c\n\r\t").description == #""a\"b\\c\n\r\t""#)
    #expect(JSONValue.string("\u{0}\u{1F}\u{7F}\u{85}").description == #""\u0000\u001f\u007f\u0085""#)
    // Some readers of lines end a line here.
    #expect(JSONValue.string("\u{2028}\u{2029}").description == #""\u2028\u2029""#)
    #expect(JSONValue.string("ä 👋 你好").description == "\"ä 👋 你好\"")
    #expect(JSONValue.object(["a\"": .null]).description == #"{"a\"":null}"#)
  }

  @Test func numbersAreWholeOrRounded() {
    #expect(JSONValue.unsigned(.max).description == "18446744073709551615")
    #expect(JSONValue.number(0.125, digits: 2).description == "0.13")
    #expect(JSONValue.number(.infinity, digits: 2).description == "null")
  }
}
