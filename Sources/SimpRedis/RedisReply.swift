internal import CHiredis

/// What Redis answered, copied out of hiredis.
public enum RedisReply: Hashable, Sendable {
  case null
  case integer(Int64)
  case string([UInt8])
  /// `OK`, `PONG` and the like.
  case status(String)
  /// An error in Redis's own words, beginning with its kind: `WRONGTYPE …`.
  case error(String)
  case array([RedisReply])

  /// The bytes of a string as text, or a status; nil for anything else and for bytes that are no UTF-8.
  public var text: String? {
    switch self {
    case .string(let bytes): String(validating: bytes, as: UTF8.self)
    case .status(let text): text
    default: nil
    }
  }

  /// An integer, nil for anything else.
  public var integer: Int64? {
    if case .integer(let value) = self { value } else { nil }
  }

  /// The elements of an array, nil for anything else.
  public var elements: [RedisReply]? {
    if case .array(let elements) = self { elements } else { nil }
  }

  /// SAFETY: the caller passes a reply that hiredis keeps for the length of the call. Depth is bounded by its parser.
  @unsafe
  init(copying reply: UnsafePointer<redisReply>) {
    let length = unsafe reply.pointee.len
    func bytes() -> [UInt8] {
      guard let start = unsafe reply.pointee.str else { return [] }
      return unsafe Array(UnsafeRawBufferPointer(start: start, count: length))
    }
    switch unsafe reply.pointee.type {
    case REDIS_REPLY_INTEGER: self = unsafe .integer(Int64(reply.pointee.integer))
    case REDIS_REPLY_STRING: self = .string(bytes())
    case REDIS_REPLY_STATUS: self = .status(String(decoding: bytes(), as: UTF8.self))
    case REDIS_REPLY_ERROR: self = .error(String(decoding: bytes(), as: UTF8.self))
    case REDIS_REPLY_ARRAY:
      var elements: [RedisReply] = []
      for index in 0..<(unsafe reply.pointee.elements) {
        if let element = unsafe reply.pointee.element[index] {
          unsafe elements.append(RedisReply(copying: element))
        } else {
          elements.append(.null)
        }
      }
      self = .array(elements)
    default: self = .null
    }
  }
}
