internal import SimpCore
internal import SimpRedis

/// What became of messages that their sender was told to be STORED.
struct Mark: Hashable, Sendable {
  var sender: SessionEntry.SenderDevice
  var recipient: String
  var state: MarkState
  /// In rising order, neither overlapping nor adjacent; below 2^40, and at most `MarkDirectory.maximumBatch`.
  var orders: [ClosedRange<UInt64>]

  var count: UInt64 { orders.reduce(0) { $0 + UInt64($1.count) } }
}

/// An entry of an inbox that a device has, and of whose message.
struct ConfirmedEntry: Hashable, Sendable {
  var id: InboxEntry.ID
  var sender: SessionEntry.SenderDevice
  var order: UInt64

  /// What their senders are to be told: one mark for each of them.
  ///
  /// - Parameter confirmed: at most `MarkDirectory.maximumBatch`.
  static func marks(of confirmed: [ConfirmedEntry], state: MarkState, recipient: String) -> [Mark] {
    Dictionary(grouping: confirmed, by: \.sender).map { sender, entries in
      Mark(sender: sender, recipient: recipient, state: state, orders: ranges(of: entries.map(\.order)))
    }
  }

  private static func ranges(of orders: [UInt64]) -> [ClosedRange<UInt64>] {
    var ranges: [ClosedRange<UInt64>] = []
    for order in orders.sorted() {
      if let last = ranges.last, order - last.upperBound <= 1 {
        ranges[ranges.count - 1] = last.lowerBound...order
      } else {
        ranges.append(order...order)
      }
    }
    return ranges
  }
}

/// How far a session is with the marks of its device.
struct MarkProgress {
  var isReading = false
  /// They could not be read: the store was away.
  var isDue = false
  /// Not all of them were told.
  var hasMore = false
  // BOUND: `maximumHeard`.
  /// What the client said back and the store has not heard yet.
  var heard: [Mark] = []
  var isConfirming = false

  /// Ranges that are told at once; the rest when these were said back.
  static let maximumTold = 1000
  /// Beyond it nothing is taken: it is told again with the next login.
  static let maximumHeard = 1000
}

extension MarkState {
  init?(_ state: MessageState) {
    switch state {
    case .delivered: self = .delivered
    case .read: self = .read
    case .expired: self = .expired
    default: return nil
    }
  }

  var messageState: MessageState {
    switch self {
    case .delivered: .delivered
    case .read: .read
    case .expired: .expired
    }
  }
}

extension Relay {
  func confirmed(_ id: InboxEntry.ID) -> ConfirmedEntry {
    ConfirmedEntry(id: id, sender: SessionEntry.SenderDevice(user: from, device: device), order: order)
  }
}
