/// Why a command got no reply, or the link is down.
public struct RedisError: Error, Hashable, Sendable, CustomStringConvertible {
  public enum Code: Sendable {
    /// Nothing was sent: there is no connection now.
    case notConnected
    /// Nothing was sent: the commands under way have reached their limit.
    case tooManyInFlight
    /// The connection went before the reply came. The command may have been carried out.
    case connectionLost
    /// No reply until the deadline. The command may have been carried out.
    case timedOut
    /// `stop()` was called.
    case stopped
    /// Nobody answers at the address, or the name cannot be found.
    case cannotConnect
    /// Redis refused user, password or the connection.
    case refused
    /// Redis answered with an error; `description` is its text.
    case server
    /// The reply has not the form that the command has.
    case unexpectedReply
    /// A name that may not become part of a key. Nothing was sent.
    case invalidName
    /// The private server could not be started.
    case cannotStart
  }

  public let code: Code
  /// One sentence for a person, with the remedy where one is known. Never holds a password.
  public let description: String
  /// The number from `errno` behind a failed connection, else 0.
  public let systemCode: Int32

  public init(_ code: Code, _ description: String, systemCode: Int32 = 0) {
    self.code = code
    self.description = description
    self.systemCode = systemCode
  }

  static let unexpectedForm = RedisError(.unexpectedReply, "the reply of Redis has not the expected form")
}
