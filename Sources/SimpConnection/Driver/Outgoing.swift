internal import SimpCore

/// A message on its way from the caller's thread to the driver.
struct Letter: Sendable {
  var content: MessageContent
  var user: String
  var receipt: SIMPReceipt
  var posted: Instant
  /// A task waits for its receipt.
  var isAwaited: Bool
}

/// What callers handed over. Here the limits of the outbox are kept, so that a caller learns at once that it is full.
struct Outgoing {
  private(set) var letters: [Letter] = []
  // BOUND: the configuration's outbox limits; letters and the outbox together.
  private(set) var open = 0
  private(set) var openBytes = 0
  /// Nothing more is taken: closing, or over.
  var refusal: SIMPError?
  /// No receipt comes any more.
  var isOver = false
  /// The order of the last message to each user that the outbox took.
  var lastOrders: [String: UInt64] = [:]

  mutating func append(_ letter: Letter, limitMessages: Int, limitBytes: Int) throws(SIMPError) {
    if let refusal { throw refusal }
    guard open < limitMessages else {
      throw SIMPError(.outboxFull, "\(open) messages wait for their receipts, as many as the outbox takes")
    }
    let bytes = letter.content.size
    guard openBytes + bytes <= limitBytes else {
      throw SIMPError(.outboxFull, "\(openBytes) bytes wait for their receipts: the outbox takes \(limitBytes)")
    }
    open += 1
    openBytes += bytes
    letters.append(letter)
  }

  mutating func takeLetters() -> [Letter] {
    guard !letters.isEmpty else { return [] }
    defer { letters.removeAll(keepingCapacity: letters.capacity <= 4096) }
    return letters
  }

  /// A message that a store held from before.
  mutating func restore(bytes: Int) {
    open += 1
    openBytes += bytes
  }

  mutating func finish(messages: Int, bytes: Int) {
    open -= messages
    openBytes -= bytes
  }
}
