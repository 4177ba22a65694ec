/// What is wrong with bytes that a peer sent. A value and a counter, never a trap.
public enum WireError: Error, Hashable, Sendable {
  /// Not what the command asks for: broken Protobuf, a missing field, a range that makes no sense.
  case malformed
  /// A header length under 16 or over the limit in force.
  case badLength(UInt32)
  case unsupportedVersion(UInt16)
  case unknownFlags(UInt16)
  /// The reserved field is not 0: the stream is out of step.
  case reservedNotZero(UInt16)
  /// A string that is not UTF-8 or holds U+0000.
  case textInvalid
  /// A name outside `[A-Za-z0-9._@-]{1,64}`.
  case nameInvalid
  /// A field that only the server may set.
  case fieldForbidden
  case tooLarge

  /// The code a peer is told.
  public var code: ErrorCode {
    switch self {
    case .malformed, .reservedNotZero: .malformed
    case .badLength, .tooLarge: .tooLarge
    case .unsupportedVersion: .unsupportedVersion
    case .unknownFlags: .unknownFlags
    case .textInvalid: .textInvalid
    case .nameInvalid: .nameInvalid
    case .fieldForbidden: .fieldForbidden
    }
  }
}

extension WireError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .malformed: "the payload is malformed"
    case .badLength(let length): "a packet length of \(length) bytes is outside the limits"
    case .unsupportedVersion(let version): "packet version \(version) is not spoken here"
    case .unknownFlags(let flags): "unknown flags 0x\(String(flags, radix: 16))"
    case .reservedNotZero(let value): "the reserved field is \(value), not 0"
    case .textInvalid: "a string is not UTF-8, or holds U+0000"
    case .nameInvalid: "a name is outside [A-Za-z0-9._@-]{1,64}"
    case .fieldForbidden: "a field is set that only the server may set"
    case .tooLarge: "the message is too large"
    }
  }
}

/// Error codes on the wire (`ErrorCode` in session.proto). Unknown numbers are kept: newer servers may send them.
public struct ErrorCode: RawRepresentable, Hashable, Sendable {
  public var rawValue: UInt32
  public init(rawValue: UInt32) { self.rawValue = rawValue }

  public static let unspecified = ErrorCode(rawValue: 0)
  public static let malformed = ErrorCode(rawValue: 1)
  public static let unsupportedVersion = ErrorCode(rawValue: 2)
  public static let unknownCommand = ErrorCode(rawValue: 3)
  public static let unknownFlags = ErrorCode(rawValue: 4)
  public static let notLoggedIn = ErrorCode(rawValue: 5)
  public static let tokenInvalid = ErrorCode(rawValue: 6)
  public static let tokenExpired = ErrorCode(rawValue: 7)
  public static let nameInvalid = ErrorCode(rawValue: 8)
  public static let tooLarge = ErrorCode(rawValue: 9)
  public static let textInvalid = ErrorCode(rawValue: 10)
  public static let fieldForbidden = ErrorCode(rawValue: 11)
  public static let deviceMismatch = ErrorCode(rawValue: 12)
  public static let outsideWindow = ErrorCode(rawValue: 13)
  public static let notOnline = ErrorCode(rawValue: 14)
  public static let noRoom = ErrorCode(rawValue: 15)
  public static let unavailable = ErrorCode(rawValue: 16)
  public static let replaced = ErrorCode(rawValue: 17)
  public static let shuttingDown = ErrorCode(rawValue: 18)
  public static let timedOut = ErrorCode(rawValue: 19)
  public static let internalError = ErrorCode(rawValue: 20)
  public static let sendOnly = ErrorCode(rawValue: 21)
  public static let tooManyConnections = ErrorCode(rawValue: 22)
  public static let overloaded = ErrorCode(rawValue: 23)
  public static let rateLimited = ErrorCode(rawValue: 24)
  public static let notReading = ErrorCode(rawValue: 25)
  public static let tokenNotYetValid = ErrorCode(rawValue: 26)
  public static let tokenAudience = ErrorCode(rawValue: 27)
  public static let tokenIssuer = ErrorCode(rawValue: 28)
  public static let tokenKeyUnknown = ErrorCode(rawValue: 29)
  public static let tokenRevoked = ErrorCode(rawValue: 30)
  public static let forbidden = ErrorCode(rawValue: 31)
}
