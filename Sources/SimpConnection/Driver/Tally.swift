package import SimpCore
internal import SimpIO

/// What a driver counts itself, and what its earlier sessions counted.
struct Tally {
  private var earlier = ChannelCounters()
  var impaired: UInt64 = 0
  var received: UInt64 = 0
  var receivedByUDP: UInt64 = 0
  var delivered: UInt64 = 0
  var stored: UInt64 = 0
  var failed: UInt64 = 0
  var logins: UInt64 = 0
  var resumed: UInt64 = 0

  /// A session is over.
  mutating func add(_ counters: ChannelCounters) { earlier.add(counters) }

  func total(with present: ChannelCounters?) -> ChannelCounters {
    var total = earlier
    if let present { total.add(present) }
    return total
  }
}

extension ChannelCounters {
  package mutating func add(_ other: ChannelCounters) {
    datagramsSent += other.datagramsSent
    datagramsReceived += other.datagramsReceived
    datagramsReplayed += other.datagramsReplayed
    datagramsForged += other.datagramsForged
    datagramsMalformed += other.datagramsMalformed
    datagramsLost += other.datagramsLost
    messagesByUDP += other.messagesByUDP
    messagesByTCP += other.messagesByTCP
    messagesEscalated += other.messagesEscalated
    retransmissions += other.retransmissions
    datagramsSpurious += other.datagramsSpurious
    probeTimeouts += other.probeTimeouts
  }
}

extension Driver {
  /// Makes the counts readable from other threads.
  func publish() {
    let counters = tally.total(with: session?.counters)
    var statistics = SIMPStatistics()
    statistics.sentByUDP = counters.messagesByUDP
    statistics.sentByTCP = counters.messagesByTCP
    statistics.escalated = counters.messagesEscalated
    statistics.retransmitted = counters.retransmissions
    statistics.datagramsSent = counters.datagramsSent
    statistics.datagramsReceived = counters.datagramsReceived
    statistics.datagramsLost = counters.datagramsLost
    statistics.datagramsRefused =
      counters.datagramsForged + counters.datagramsReplayed + counters.datagramsMalformed
    statistics.datagramsImpaired = tally.impaired + (socket?.dropped ?? 0)
    statistics.delivered = tally.delivered
    statistics.stored = tally.stored
    statistics.failed = tally.failed
    statistics.received = tally.received
    statistics.receivedByUDP = tally.receivedByUDP
    statistics.logins = tally.logins
    statistics.resumed = tally.resumed
    statistics.duplicatesDropped = inbound.duplicates
    statistics.late = inbound.late
    statistics.unfinished = open.count
    if let session {
      statistics.path = SIMPPath(session.path)
      statistics.rtt = session.rtt.latest.map { _ in Duration(session.rtt.smoothed) }
    }
    published.withLock { $0 = statistics }
  }
}

extension SIMPPath {
  init(_ path: PathState) {
    switch path {
    case .off: self = .off
    case .probing: self = .probing
    case .up, .degraded: self = .up
    case .down: self = .down
    }
  }
}
