internal import SimpCore

/// What the sender of a session was told to be delivered, by recipient, so that a copy that comes later goes no further:
/// one that was overtaken, or stood in a TCP connection that stalled. The recipient's device knows copies by itself, but
/// not when its process began after the message was finished: it would begin at the floor that the copy carries.
struct FinishedOrders {
  // BOUND: `maximumConversations`, each with `width` orders. Of a sender with more conversations some are forgotten,
  // and what is further above a gap is not noted: such copies are relayed, as all were before.
  private var conversations: [String: Conversation] = [:]

  static let maximumConversations = 256
  /// Bits: 128 bytes at most for a conversation, none while nothing is missing.
  static let width: UInt64 = 1024

  private struct Conversation {
    /// The highest that a message of it carried.
    var floor: UInt64
    /// Starts there: what is below is finished by the sender's own word.
    var map: OrderMap
    /// Some of it was STORED: which is not noted.
    var hasStored = false

    mutating func knows(order: UInt64, floor: UInt64) -> Knowledge? {
      if order < self.floor { return .belowFloor }
      if map.contains(order) { return hasStored ? .told : .delivered }
      guard floor > self.floor else { return nil }
      self.floor = floor
      map.advance(to: floor)
      return nil
    }

    mutating func insert(_ order: UInt64) {
      guard order >= map.base, order - map.base < FinishedOrders.width else { return }
      map.insert(order)
    }
  }

  /// Conversations something is kept of.
  var count: Int { conversations.count }

  enum Knowledge: Equatable {
    /// The sender was told DELIVERED.
    case delivered
    /// It was told DELIVERED or STORED.
    case told
    /// Its floor passed it, so that it has an outcome for it.
    case belowFloor
  }

  /// What is known of a message that comes; nil: it may be new.
  mutating func knows(order: UInt64, floor: UInt64, to user: String) -> Knowledge? {
    guard let index = conversations.index(forKey: user) else {
      if conversations.count >= Self.maximumConversations { conversations.remove(at: conversations.startIndex) }
      conversations[user] = Conversation(floor: floor, map: OrderMap(base: floor))
      return nil
    }
    return conversations.values[index].knows(order: order, floor: floor)
  }

  /// The sender is told DELIVERED, or STORED.
  mutating func insert(order: UInt64, to user: String, isStored: Bool = false) {
    guard let index = conversations.index(forKey: user) else { return }
    conversations.values[index].insert(order)
    if isStored { conversations.values[index].hasStored = true }
  }
}
