/// What a person typed, set or wrote in a file cannot be used. The programs print it and end with `ExitCode.usage`.
public struct UsageError: Error, Hashable, Sendable, CustomStringConvertible {
  /// One sentence that says where the mistake is and what would be right.
  public let description: String

  public init(_ description: String) { self.description = description }
}
