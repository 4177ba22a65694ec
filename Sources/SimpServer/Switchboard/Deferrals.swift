internal import SimpCore

/// Messages of one sender that were answered LATER, by recipient. Later orders of such a conversation are answered
/// LATER too until the lowest was taken: otherwise what was refused could never catch up in order.
struct Deferrals {
  // BOUND: `maximumConversations` recipients, each with fewer orders than the window of the session. A sender that
  // has more of them only loses the guarantee that a refused message is asked for again before later ones.
  private var orders: [String: [UInt64]] = [:]
  static let maximumConversations = 1024

  /// Whether a message must wait for an earlier one.
  mutating func blocks(order: UInt64, to user: String, floor: UInt64) -> Bool {
    guard !orders.isEmpty, var waiting = orders[user] else { return false }
    let finished = waiting.prefix { $0 < floor }.count
    if finished > 0 {
      waiting.removeFirst(finished)
      orders[user] = waiting.isEmpty ? nil : waiting
    }
    guard let lowest = waiting.first else { return false }
    return order > lowest
  }

  /// A message was answered LATER.
  mutating func insert(order: UInt64, to user: String) {
    var waiting = orders[user] ?? []
    guard !waiting.isEmpty || orders.count < Self.maximumConversations else { return }
    let index = waiting.firstIndex { $0 >= order } ?? waiting.count
    if index < waiting.count, waiting[index] == order { return }
    guard waiting.count < WireLimits.windowMessages else { return }
    waiting.insert(order, at: index)
    orders[user] = waiting
  }

  /// A message was taken.
  mutating func remove(order: UInt64, to user: String) {
    guard !orders.isEmpty, var waiting = orders[user], let index = waiting.firstIndex(of: order) else { return }
    waiting.remove(at: index)
    orders[user] = waiting.isEmpty ? nil : waiting
  }
}
