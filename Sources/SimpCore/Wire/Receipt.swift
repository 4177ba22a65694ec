/// The states a message passes through. Different words for different facts: none is ever reported for another.
public enum MessageState: UInt32, Hashable, Sendable {
  case unspecified = 0
  /// A server has it in memory.
  case accepted = 1
  /// Refused for now; the sender keeps it and offers it again.
  case later = 2
  /// It is in Redis.
  case stored = 3
  /// Every registered device of the recipient has it.
  case delivered = 4
  case read = 5
  /// Refused for good.
  case rejected = 6
  case expired = 7
}

/// Part (a) of a receipt: which datagrams arrived.
public struct DatagramReceipt: Hashable, Sendable {
  /// Arrived datagram numbers, highest range first.
  public var ranges: [ClosedRange<UInt64>]
  /// From the arrival of the highest number to this receipt.
  public var delay: Interval
  /// Datagrams that arrived and whose messages were not all taken: their outcomes come on TCP.
  public var answered: [UInt64]

  public init(ranges: [ClosedRange<UInt64>], delay: Interval, answered: [UInt64] = []) {
    self.ranges = ranges
    self.delay = delay
    self.answered = answered
  }
}

/// Part (b): what became of messages of one conversation.
public struct Outcome: Hashable, Sendable {
  public var state: MessageState
  /// Towards a sender, the recipient; from a recipient, the sender.
  public var user: String
  /// Towards a sender 0; from a recipient, the sender's device number.
  public var device: UInt32
  /// Order ranges, each not empty.
  public var orders: [ClosedRange<UInt64>]
  public var code: ErrorCode
  public var retryAfterMilliseconds: UInt32
  /// From a server: it is told again with each login until the sender says it back. From a sender: it has heard it.
  public var isKept: Bool

  public init(
    _ state: MessageState, user: String, device: UInt32 = 0, orders: [ClosedRange<UInt64>],
    code: ErrorCode = .unspecified, retryAfterMilliseconds: UInt32 = 0, isKept: Bool = false
  ) {
    self.state = state
    self.user = user
    self.device = device
    self.orders = orders
    self.code = code
    self.retryAfterMilliseconds = retryAfterMilliseconds
    self.isKept = isKept
  }
}

/// One RECEIPT packet.
public struct Receipt: Hashable, Sendable {
  public var datagrams: DatagramReceipt?
  public var outcomes: [Outcome] = []
  /// Replaces the room that the login announced; 0: unchanged.
  public var roomMessages: UInt32 = 0
  public var roomBytes: UInt64 = 0

  public init(datagrams: DatagramReceipt? = nil, outcomes: [Outcome] = []) {
    self.datagrams = datagrams
    self.outcomes = outcomes
  }

  // MARK: - Writing

  func append(to bytes: inout [UInt8]) {
    if let datagrams { bytes.appendField(1, message: datagrams.append) }
    for outcome in outcomes { bytes.appendField(2, message: outcome.append) }
    bytes.appendField(3, varint: UInt64(roomMessages))
    bytes.appendField(4, varint: roomBytes)
  }

  // MARK: - Reading

  /// - Throws: `malformed` for broken bytes, ranges that run below 0 or hold nothing, more ranges or outcomes than
  ///   the limits; `textInvalid`.
  public init(reading payload: Span<UInt8>) throws(WireError) {
    var reader = ProtobufReader(payload)
    while let field = try reader.next() {
      switch (field.number, field.kind) {
      case (1, .bytes): datagrams = try DatagramReceipt(reading: payload.extracting(field.range))
      case (2, .bytes):
        guard outcomes.count < WireLimits.maximumOutcomes else { throw .malformed }
        outcomes.append(try Outcome(reading: payload.extracting(field.range)))
      case (3, .varint): roomMessages = UInt32(truncatingIfNeeded: field.value)
      case (4, .varint): roomBytes = field.value
      case (1...4, _): throw .malformed
      default: continue
      }
    }
  }
}

extension DatagramReceipt {
  func append(to bytes: inout [UInt8]) {
    guard let first = ranges.first else { return }
    bytes.appendField(1, varint: first.upperBound)
    bytes.appendField(2, varint: UInt64(max(0, delay.nanoseconds / 1000)))
    bytes.appendField(3, packed: ranges.map { $0.upperBound - $0.lowerBound + 1 })
    let gaps = zip(ranges, ranges.dropFirst()).map { $0.lowerBound - $1.upperBound - 1 }
    bytes.appendField(4, packed: gaps)
    bytes.appendField(5, packed: answered)
  }

  init(reading bytes: Span<UInt8>) throws(WireError) {
    var largest: UInt64 = 0
    var runs: [UInt64] = []
    var gaps: [UInt64] = []
    self.init(ranges: [], delay: .zero)
    var reader = ProtobufReader(bytes)
    while let field = try reader.next() {
      switch field.number {
      case 1 where field.kind == .varint: largest = field.value
      case 2 where field.kind == .varint: delay = .microseconds(Int64(min(field.value, 60_000_000)))
      case 3: try bytes.appendRepeated(field, to: &runs, limit: WireLimits.maximumReceiptRanges)
      case 4: try bytes.appendRepeated(field, to: &gaps, limit: WireLimits.maximumReceiptRanges)
      case 5: try bytes.appendRepeated(field, to: &answered, limit: WireLimits.maximumAnsweredDatagrams)
      case 1...5: throw .malformed
      default: continue
      }
    }
    guard runs.count == gaps.count + 1 else { throw .malformed }
    var upper = largest
    for (index, run) in runs.enumerated() {
      guard run > 0, run - 1 <= upper else { throw .malformed }
      let lower = upper - (run - 1)
      ranges.append(lower...upper)
      guard index < gaps.count else { break }
      // A gap of 0 would be one run; the next range must start at 0 or above.
      guard gaps[index] > 0, gaps[index] < lower else { throw .malformed }
      upper = lower - gaps[index] - 1
    }
  }
}

extension Outcome {
  func append(to bytes: inout [UInt8]) {
    bytes.appendField(1, varint: UInt64(state.rawValue))
    bytes.appendField(2, string: user)
    bytes.appendField(3, varint: UInt64(device))
    bytes.appendField(4, packed: orders.flatMap { [$0.lowerBound, $0.upperBound - $0.lowerBound + 1] })
    bytes.appendField(5, varint: UInt64(code.rawValue))
    bytes.appendField(6, varint: UInt64(retryAfterMilliseconds))
    bytes.appendField(7, varint: isKept ? 1 : 0)
  }

  init(reading bytes: Span<UInt8>) throws(WireError) {
    self.init(.unspecified, user: "", orders: [])
    var pairs: [UInt64] = []
    var reader = ProtobufReader(bytes)
    while let field = try reader.next() {
      switch (field.number, field.kind) {
      case (1, .varint): state = MessageState(rawValue: UInt32(truncatingIfNeeded: field.value)) ?? .unspecified
      case (2, .bytes):
        guard Text.isUserName(bytes.extracting(field.range)) else { throw .nameInvalid }
        user = Text.string(bytes, field.range)
      case (3, .varint): device = UInt32(truncatingIfNeeded: field.value)
      case (4, _): try bytes.appendRepeated(field, to: &pairs, limit: 2 * Int(WireLimits.orderWindow))
      case (5, .varint): code = ErrorCode(rawValue: UInt32(truncatingIfNeeded: field.value))
      case (6, .varint): retryAfterMilliseconds = UInt32(truncatingIfNeeded: field.value)
      case (7, .varint): isKept = field.value != 0
      case (1...7, _): throw .malformed
      default: continue
      }
    }
    guard pairs.count % 2 == 0 else { throw .malformed }
    for index in stride(from: 0, to: pairs.count, by: 2) {
      let last = pairs[index].addingReportingOverflow(pairs[index + 1] &- 1)
      guard pairs[index + 1] > 0, !last.overflow else { throw .malformed }
      // Ascending and apart: ranges that repeat one another would cost work that nothing bounds.
      if let before = orders.last, before.upperBound >= pairs[index] { throw .malformed }
      orders.append(pairs[index]...last.partialValue)
    }
  }
}

extension Span where Element == UInt8 {
  /// A repeated number field, packed or not.
  fileprivate func appendRepeated(_ field: ProtobufField, to values: inout [UInt64], limit: Int) throws(WireError) {
    switch field.kind {
    case .varint:
      values.append(field.value)
    case .bytes:
      var reader = ProtobufReader(extracting(field.range))
      while reader.offset < field.range.count, values.count <= limit { values.append(try reader.varint()) }
    case .fixed32, .fixed64:
      throw .malformed
    }
    if values.count > limit { throw .malformed }
  }
}
