@testable import SimpRedis
@testable import SimpServer

/// The marks that a store keeps, with the rules of the scripts.
struct SimulatedMarks {
  private struct Key: Hashable {
    var sender: SessionEntry.SenderDevice
    var recipient: String
    var state: MarkState
  }

  private var orders: [Key: Set<UInt64>] = [:]

  /// Whoever has something to be told.
  var owed: [String] { Set(orders.filter { !$0.value.isEmpty }.keys.map { "\($0.sender.user)" }).sorted() }

  mutating func add(_ marks: [Mark]) {
    for mark in marks {
      let key = Key(sender: mark.sender, recipient: mark.recipient, state: mark.state)
      for range in mark.orders { orders[key, default: []].formUnion(range) }
    }
  }

  mutating func remove(_ marks: [Mark]) {
    for mark in marks {
      let key = Key(sender: mark.sender, recipient: mark.recipient, state: mark.state)
      for range in mark.orders { orders[key]?.subtract(range) }
    }
  }

  func sets(of sender: SessionEntry.SenderDevice) -> [MarkSet] {
    orders.filter { $0.key.sender == sender && !$0.value.isEmpty }
      .map { key, orders in
        MarkSet(recipient: key.recipient, state: key.state, orders: Self.ranges(orders))
      }
      .sorted { ($0.recipient, $0.state.rawValue) < ($1.recipient, $1.state.rawValue) }
  }

  private static func ranges(_ orders: Set<UInt64>) -> [ClosedRange<UInt64>] {
    var ranges: [ClosedRange<UInt64>] = []
    for order in orders.sorted() {
      if let last = ranges.last, last.upperBound + 1 == order {
        ranges[ranges.count - 1] = last.lowerBound...order
      } else {
        ranges.append(order...order)
      }
    }
    return ranges
  }
}
