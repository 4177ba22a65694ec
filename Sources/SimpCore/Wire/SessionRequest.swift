internal import CProtobufC
internal import CSimpMessages

/// What a client may ask for in a session, beside messages: RENEW, KICK and COUNTERS.
public enum SessionRequest: Hashable, Sendable {
  /// The session is to go on with this token, of the same user.
  case renew(token: String)
  /// Sends a user away: ends all its sessions, and refuses its tokens up to now. `reason` is for the user.
  case kick(user: String, reason: String)
  case counters

  /// Longest reason, in bytes of UTF-8.
  public static let maximumReasonBytes = 256

  var command: Command {
    switch self {
    case .renew: .renew
    case .kick: .kick
    case .counters: .counters
    }
  }

  func append(to bytes: inout [UInt8]) {
    switch self {
    case .renew(let token): bytes.appendField(1, string: token)
    case .kick(let user, let reason):
      bytes.appendField(1, string: user)
      bytes.appendField(2, string: reason)
    case .counters: break
    }
  }

  /// - Returns: nil when `command` is none of these.
  /// - Throws: `malformed`, `textInvalid`; `tooLarge` for a token or reason over its limit; `nameInvalid`.
  init?(_ command: Command?, reading payload: Span<UInt8>) throws(WireError) {
    switch command {
    case .renew:
      let message = unsafe try Control.unpack(payload, text: 1 << 1, with: simp__renew__unpack)
      // SAFETY: freed once, after the last use; the fields are copied.
      defer { unsafe simp__renew__free_unpacked(message, nil) }
      let token = unsafe Control.string(message.pointee.token)
      guard token.utf8.count <= WireLimits.maximumTokenBytes else { throw .tooLarge }
      self = .renew(token: token)
    case .kick:
      let message = unsafe try Control.unpack(payload, text: 1 << 1 | 1 << 2, with: simp__kick__unpack)
      // SAFETY: as above.
      defer { unsafe simp__kick__free_unpacked(message, nil) }
      let (user, reason) = unsafe (Control.string(message.pointee.user), Control.string(message.pointee.reason))
      guard Text.isUserName(user) else { throw .nameInvalid }
      guard reason.utf8.count <= Self.maximumReasonBytes else { throw .tooLarge }
      self = .kick(user: user, reason: reason)
    case .counters: self = .counters
    default: return nil
    }
  }
}

/// Which request an answer is for.
public struct RequestTicket: Hashable, Sendable {
  let command: Command
  let sequence: UInt16
}

/// What a server answers to a `SessionRequest` that it grants.
public enum SessionAnswer: Hashable, Sendable {
  /// Times in Unix milliseconds: when the session ends now, and the server's present one.
  case renewed(expires: UInt64, serverTime: UInt64)
  /// Tokens issued up to this time, in Unix milliseconds, are refused. `isStored`: the store knows it too.
  case kicked(issuedUntil: UInt64, isStored: Bool)
  /// By name, sorted.
  case counters([Counter])

  public struct Counter: Hashable, Sendable {
    public var name: String
    public var value: UInt64

    public init(name: String, value: UInt64) {
      self.name = name
      self.value = value
    }
  }

  func append(to bytes: inout [UInt8]) {
    switch self {
    case .renewed(let expires, let serverTime):
      bytes.appendField(1, fixed64: expires)
      bytes.appendField(2, fixed64: serverTime)
    case .kicked(let issuedUntil, let isStored):
      bytes.appendField(1, fixed64: issuedUntil)
      bytes.appendField(2, varint: isStored ? 1 : 0)
    case .counters(let counters):
      for counter in counters {
        bytes.appendField(1) { fields in
          fields.appendField(1, string: counter.name)
          fields.appendField(2, varint: counter.value)
        }
      }
    }
  }

  /// - Returns: nil when `command` is no request that has such an answer.
  /// - Throws: `malformed`, `textInvalid`.
  init?(_ command: Command?, reading payload: Span<UInt8>) throws(WireError) {
    switch command {
    case .renew:
      let message = unsafe try Control.unpack(payload, text: 0, with: simp__renew_reply__unpack)
      // SAFETY: freed once, after the last use; the fields are copied.
      defer { unsafe simp__renew_reply__free_unpacked(message, nil) }
      self = unsafe .renewed(expires: message.pointee.token_expires, serverTime: message.pointee.server_time)
    case .kick:
      let message = unsafe try Control.unpack(payload, text: 0, with: simp__kick_reply__unpack)
      // SAFETY: as above.
      defer { unsafe simp__kick_reply__free_unpacked(message, nil) }
      self = unsafe .kicked(issuedUntil: message.pointee.issued_until, isStored: message.pointee.stored != 0)
    case .counters: self = .counters(try Self.readCounters(payload))
    default: return nil
    }
  }

  /// By the reader of our own: strings inside of messages are checked where they are.
  private static func readCounters(_ payload: Span<UInt8>) throws(WireError) -> [Counter] {
    var counters: [Counter] = []
    var reader = ProtobufReader(payload)
    while let field = try reader.next() {
      guard field.number == 1 else { continue }
      guard field.kind == .bytes else { throw .malformed }
      let inner = payload.extracting(field.range)
      let message = unsafe try Control.unpack(inner, text: 1 << 1, with: simp__counter__unpack)
      // SAFETY: as above.
      defer { unsafe simp__counter__free_unpacked(message, nil) }
      counters.append(unsafe Counter(name: Control.string(message.pointee.name), value: message.pointee.value))
    }
    return counters
  }
}
