internal import SimpCore

/// What became of messages that their sender was told to be STORED.
public enum MarkState: String, CaseIterable, Sendable {
  case delivered, read, expired
}

/// Marks of one conversation and state.
public struct MarkSet: Hashable, Sendable {
  public let recipient: String
  public let state: MarkState
  /// In rising order, neither overlapping nor adjacent.
  public let orders: [ClosedRange<UInt64>]
}

/// What senders are still to be told: the key `simp:marks:{u:SENDER}` of Redis.
///
/// On the link's loop only; completions come once, never from inside the call. A name outside the grammar is answered
/// with `invalidName` before anything is sent, and a reply that no script of ours gives with `unexpectedReply`. Every
/// call may be repeated. Device numbers are below 2^24, orders below 2^40; a caller has checked that.
public final class MarkDirectory {
  /// BOUND: ranges of one device, recipient and state; beyond it the lowest orders go, for a range over a gap would say
  /// what is not so.
  public static let maximumRanges = 64
  /// BOUND: device, recipient and state of one sender; beyond it those of the lowest device numbers go.
  public static let maximumFields = 4096
  /// BOUND: ranges in one call.
  public static let maximumBatch = 1000
  /// How long the marks of a sender stand after the last one was added.
  public static let memoryMilliseconds: UInt64 = 30 * 86_400 * 1000

  private let link: RedisLink
  private let markScript: RedisScript
  private let marksScript: RedisScript
  private let confirmScript: RedisScript

  public init(link: RedisLink) {
    self.link = link
    markScript = RedisScript(link: link, text: MarkScripts.mark)
    marksScript = RedisScript(link: link, text: MarkScripts.marks)
    confirmScript = RedisScript(link: link, text: MarkScripts.confirm)
  }

  /// Notes that these messages of `sender`'s device to `recipient` are in this state.
  ///
  /// What is read is delivered: the marks of delivery of the same messages go, and are not taken any more.
  ///
  /// - Parameters:
  ///   - orders: in any order, also overlapping; 1 to `maximumBatch`.
  ///   - completion: how many orders were given up for room, of this device or of others: their sender is not told.
  public func mark(
    sender: String, device: UInt32, recipient: String, state: MarkState, orders: [ClosedRange<UInt64>],
    completion: @escaping (Result<UInt64, RedisError>) -> Void
  ) {
    let text = Self.text(orders, device)
    guard Text.isUserName(sender), Text.isUserName(recipient) else { return refuse(completion) }
    markScript.run(
      keys: [Self.key(sender)],
      arguments: [
        RedisArgument("\(device) \(recipient)"), RedisArgument(state.rawValue), RedisArgument(text),
        RedisArgument(Self.maximumRanges), RedisArgument(Self.maximumFields), RedisArgument(Self.memoryMilliseconds),
      ]
    ) { completion(Self.count($0)) }
  }

  /// Everything that a device of `sender` is still to be told, in no order.
  public func marks(
    sender: String, device: UInt32, completion: @escaping (Result<[MarkSet], RedisError>) -> Void
  ) {
    guard Text.isUserName(sender) else { return refuse(completion) }
    marksScript.run(keys: [Self.key(sender)], arguments: [RedisArgument(device)]) { result in
      completion(
        result.flatMap { reply in
          Self.sets(reply, of: device).map { .success($0) } ?? .failure(.unexpectedForm)
        })
    }
  }

  /// Takes out what the device has been told.
  ///
  /// - Parameters:
  ///   - orders: in any order, also overlapping; 1 to `maximumBatch`.
  ///   - completion: how many of the orders were there.
  public func confirmMarks(
    sender: String, device: UInt32, recipient: String, state: MarkState, orders: [ClosedRange<UInt64>],
    completion: @escaping (Result<UInt64, RedisError>) -> Void
  ) {
    let text = Self.text(orders, device)
    guard Text.isUserName(sender), Text.isUserName(recipient) else { return refuse(completion) }
    confirmScript.run(
      keys: [Self.key(sender)],
      arguments: [RedisArgument("\(device) \(recipient)"), RedisArgument(state.rawValue), RedisArgument(text)]
    ) { completion(Self.count($0)) }
  }

  // MARK: Words

  private static func key(_ sender: String) -> String { "simp:marks:{u:\(sender)}" }

  /// By way of the link, so that the answer comes in a later turn like all others.
  private func refuse<Value>(_ completion: @escaping (Result<Value, RedisError>) -> Void) {
    link.refuse(RedisError(.invalidName, "not a user name")) { completion(.failure($0)) }
  }

  private static func text(_ orders: [ClosedRange<UInt64>], _ device: UInt32) -> String {
    precondition(device < 1 << 24, "a device number has 24 bits")
    precondition((1...maximumBatch).contains(orders.count), "a call is about some ranges, and not too many")
    precondition(orders.allSatisfy { $0.upperBound < 1 << 40 }, "an order has 40 bits")
    return orders.map { "\($0.lowerBound)-\($0.upperBound)" }.joined(separator: ",")
  }

  private static func count(_ result: Result<RedisReply, RedisError>) -> Result<UInt64, RedisError> {
    result.flatMap { reply in
      reply.integer.flatMap { UInt64(exactly: $0) }.map { .success($0) } ?? .failure(.unexpectedForm)
    }
  }

  private static func sets(_ reply: RedisReply, of device: UInt32) -> [MarkSet]? {
    guard let words = reply.elements, words.count.isMultiple(of: 2) else { return nil }
    var sets: [MarkSet] = []
    for index in stride(from: 0, to: words.count, by: 2) {
      let parts = words[index].text?.split(separator: " ", omittingEmptySubsequences: false) ?? []
      guard parts.count == 3, UInt32(digits: parts[0]) == device, Text.isUserName(String(parts[1])),
        let state = MarkState(rawValue: String(parts[2])), let orders = words[index + 1].text.flatMap({ ranges($0) })
      else { return nil }
      sets.append(MarkSet(recipient: String(parts[1]), state: state, orders: orders))
    }
    return sets
  }

  private static func ranges(_ text: String) -> [ClosedRange<UInt64>]? {
    var ranges: [ClosedRange<UInt64>] = []
    for part in text.split(separator: ",", omittingEmptySubsequences: false) {
      let bounds = part.split(separator: "-", omittingEmptySubsequences: false)
      guard bounds.count == 2, let low = UInt64(digits: bounds[0]), let high = UInt64(digits: bounds[1]), low <= high,
        high < 1 << 40, ranges.last.map({ $0.upperBound + 1 < low }) ?? true
      else { return nil }
      ranges.append(low...high)
    }
    return ranges
  }
}
