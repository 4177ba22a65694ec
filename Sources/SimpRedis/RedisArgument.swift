/// One word of a command: any bytes. Words never mix with the protocol around them, whatever they hold.
public struct RedisArgument: Hashable, Sendable, ExpressibleByStringLiteral {
  public let bytes: [UInt8]

  public init(_ bytes: [UInt8]) { self.bytes = bytes }
  public init(_ text: String) { bytes = Array(text.utf8) }
  public init(_ number: some BinaryInteger) { bytes = Array("\(number)".utf8) }
  public init(stringLiteral text: String) { self.init(text) }
}
