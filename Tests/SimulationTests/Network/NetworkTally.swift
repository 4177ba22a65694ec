/// Something a network does.
enum Deed: String, CaseIterable, Sendable {
  case lost, duplicated, replayed, reordered, corrupted, blocked
  case receiptsDropped = "receipts dropped"
  case queued
  case overflowed = "queue full"
  case tooLarge = "too large"
  case sleptOver = "slept over"
  case overrun = "socket full"
  case streamStalled = "TCP stalled"
  case streamHiccups = "TCP hiccups"
  case streamQueued = "TCP queued"
  case streamSleptOver = "TCP slept over"
  case rebound = "addresses changed"
  case cut = "connections cut"

  /// 0 for what no datagram link does.
  func count(in counters: LinkCounters) -> Int {
    switch self {
    case .lost: counters.lost
    case .duplicated: counters.duplicated
    case .replayed: counters.replayed
    case .reordered: counters.reordered
    case .corrupted: counters.corrupted
    case .blocked: counters.blocked
    case .receiptsDropped: counters.receiptsDropped
    case .queued: counters.queued
    case .overflowed: counters.overflowed
    case .tooLarge: counters.tooLarge
    case .sleptOver: counters.sleptOver
    case .overrun: counters.overrun
    case .streamStalled, .streamHiccups, .streamQueued, .streamSleptOver, .rebound, .cut: 0
    }
  }

  fileprivate func count(in counters: StreamCounters) -> Int {
    switch self {
    case .streamStalled: counters.stalled
    case .streamHiccups: counters.hiccups
    case .streamQueued: counters.queued
    case .streamSleptOver: counters.sleptOver
    default: 0
    }
  }
}

/// What the network of a run did, all clients together.
struct NetworkTally: Sendable {
  var up = LinkCounters()
  var down = LinkCounters()
  var streamUp = StreamCounters()
  var streamDown = StreamCounters()
  var rebindings = 0
  var cuts = 0

  static func += (left: inout NetworkTally, right: NetworkTally) {
    left.up += right.up
    left.down += right.down
    left.streamUp += right.streamUp
    left.streamDown += right.streamDown
    left.rebindings += right.rebindings
    left.cuts += right.cuts
  }

  func count(_ deed: Deed) -> (up: Int, down: Int) {
    switch deed {
    case .rebound: (rebindings, rebindings)
    case .cut: (cuts, cuts)
    default:
      (deed.count(in: up) + deed.count(in: streamUp), deed.count(in: down) + deed.count(in: streamDown))
    }
  }

  /// A line each way.
  var text: String {
    let besides = [("addresses changed", rebindings), ("connections cut", cuts)].filter { $0.1 > 0 }
      .map { "; \($0.0) \($0.1)" }.joined()
    return "  up   \(up.text); \(streamUp.text)\(besides)\n  down \(down.text); \(streamDown.text)"
  }
}
