internal import SimpCore

/// Receipts of messages that are STORED: what becomes of those is told later, to whoever still holds the receipt.
struct FollowedReceipts {
  private struct Entry {
    weak var receipt: SIMPReceipt?
    var posted: Instant
  }

  /// BOUND: messages; beyond it those of dropped receipts go, then the oldest.
  private let limit: Int
  private var conversations: [UInt32: [UInt64: Entry]] = [:]
  /// In the order they came, gone ones among them.
  private var arrivals: [MessageKey] = []

  init(limit: Int = 65_536) { self.limit = limit }

  mutating func insert(_ receipt: SIMPReceipt, posted: Instant, key: MessageKey) {
    if arrivals.count >= limit { makeRoom() }
    arrivals.append(key)
    conversations[key.conversation, default: [:]][key.order] = Entry(receipt: receipt, posted: posted)
  }

  /// What became of messages; costs no more than what is kept of their conversation.
  func follow(_ state: SIMPReceipt.State, conversation: UInt32, orders: [ClosedRange<UInt64>], now: Instant) {
    guard let entries = conversations[conversation] else { return }
    func tell(_ entry: Entry) { entry.receipt?.follow(state, after: now - entry.posted) }
    for range in orders {
      if range.upperBound - range.lowerBound < UInt64(entries.count) {
        for order in range { if let entry = entries[order] { tell(entry) } }
      } else {
        for (order, entry) in entries where range.contains(order) { tell(entry) }
      }
    }
  }

  /// Nothing more will be told.
  mutating func endAll() {
    for entries in conversations.values { for entry in entries.values { entry.receipt?.endFollowing() } }
    conversations = [:]
    arrivals = []
  }

  private mutating func makeRoom() {
    var held: [MessageKey] = []
    for key in arrivals {
      if conversations[key.conversation]?[key.order]?.receipt?.mayBeFollowed ?? false {
        held.append(key)
      } else {
        forget(key)
      }
    }
    arrivals = held
    // An eighth at once, so that not each further one has to look through all.
    let kept = limit - limit / 8
    guard arrivals.count > kept else { return }
    for key in arrivals.prefix(arrivals.count - kept) {
      conversations[key.conversation]?[key.order]?.receipt?.endFollowing()
      forget(key)
    }
    arrivals.removeFirst(arrivals.count - kept)
  }

  private mutating func forget(_ key: MessageKey) {
    conversations[key.conversation]?[key.order] = nil
    if conversations[key.conversation]?.isEmpty ?? false { conversations[key.conversation] = nil }
  }
}
