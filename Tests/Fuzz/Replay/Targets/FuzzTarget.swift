/// One function that takes any bytes and says what is wrong with what the library made of them. libFuzzer calls it
/// (Tests/Fuzz/run), and the tests replay its corpus through it in every build.
struct FuzzTarget: Sendable {
  /// Names the corpus, the crashers and the planted fault.
  let name: String
  /// Longer inputs find nothing more, only slower. Bytes.
  let maximumBytes: Int
  /// Inputs that go deep, for a corpus that starts from nothing.
  let seeds: @Sendable () -> [[UInt8]]
  /// Throws a `Violation`; whatever else goes wrong traps.
  let run: @Sendable ([UInt8]) throws -> Void

  static let all: [FuzzTarget] = [
    StreamTarget.target, DatagramTarget.target, ReceiptTarget.target, ArrivalTarget.target, PayloadTarget.target,
    ConversationTarget.target, LoginTarget.target, ServerTarget.target, ClientTarget.target, TokenTarget.target,
  ]
}

/// A property that does not hold.
struct Violation: Error, CustomStringConvertible {
  var description: String
}

func require(_ condition: Bool, _ what: @autoclosure () -> String) throws {
  if !condition { throw Violation(description: what()) }
}
