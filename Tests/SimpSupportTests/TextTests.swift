import Testing

@testable import SimpSupport

@Suite struct TextTests {
  @Test func durationsAreRead() throws {
    let cases: [(String, Duration)] = [
      ("0", .zero), ("1ns", .nanoseconds(1)), ("7us", .microseconds(7)), ("250ms", .milliseconds(250)),
      ("90s", .seconds(90)), ("5m", .seconds(300)), ("1h", .seconds(3600)), ("1h30m", .seconds(5400)),
      ("7d", .seconds(604_800)), ("1s500ms", .milliseconds(1500)), ("0s", .zero),
    ]
    for (text, duration) in cases { #expect(try DurationText.parse(text) == duration, "\(text)") }
  }

  @Test(arguments: [
    "", "5", "s", "-1s", "1 s", "1.5s", "1x", "1h30", "999999999999d", "9223372036854775807ns1ns", "٣s",
  ])
  func whatIsNoDuration(text: String) {
    #expect(throws: UsageError.self) { try DurationText.parse(text) }
  }

  @Test func durationsAreDescribed() {
    let cases: [(Duration, String)] = [
      (.zero, "0 s"), (.nanoseconds(7), "7 ns"), (.microseconds(3), "3.00 us"), (.nanoseconds(999_600), "1.00 ms"),
      (.microseconds(3100), "3.10 ms"), (.microseconds(31_000), "31.0 ms"), (.milliseconds(310), "310 ms"),
      (.milliseconds(999), "999 ms"), (.nanoseconds(999_900_000), "1.00 s"), (.seconds(59), "59.0 s"),
      (.seconds(60), "1 min 0 s"), (.seconds(3599), "59 min 59 s"), (.seconds(7500), "2 h 5 min"),
      (.seconds(90_000), "1 d 1 h"), (.seconds(-2), "-2.00 s"),
    ]
    for (duration, text) in cases { #expect(DurationText.describe(duration) == text) }
  }

  @Test func fixedPlaces() {
    let cases: [(Double, Int, String)] = [
      (3.14159, 2, "3.14"), (2.5, 0, "3"), (-2.5, 0, "-3"), (0.05, 1, "0.1"), (1.005, 1, "1.0"), (0, 3, "0.000"),
      (-0.001, 2, "0.00"), (99.999, 2, "100.00"), (12_345.6, 0, "12346"), (1e300, 2, "1e+300"), (.nan, 1, "nan"),
      (.infinity, 1, "inf"),
    ]
    for (value, digits, text) in cases { #expect(fixed(value, digits: digits) == text) }
  }

  @Test func nothingActsOnATerminal() {
    #expect(printable("grüße 日本 😀") == "grüße 日本 😀")
    #expect(
      printable("a\u{1B}[31mb\nc\t\u{7F}\u{9B}\u{202E}\u{2028}")
        == "a\\u{1b}[31mb\\nc\\t\\u{7f}\\u{9b}\\u{202e}\\u{2028}")
    #expect(quoted("a\"\\\u{1B}") == "\"a\\\"\\\\\\u{1b}\"")
    #expect(quoted(String(repeating: "x", count: 300)) == "\"" + String(repeating: "x", count: 200) + "…\"")
  }

  @Test func timestamps() {
    #expect(Timestamp.text(seconds: 0, milliseconds: 0) == "1970-01-01T00:00:00.000Z")
    #expect(Timestamp.text(seconds: 1_709_210_096, milliseconds: 7) == "2024-02-29T12:34:56.007Z")
    #expect(Timestamp.now().count == 24)
  }
}
