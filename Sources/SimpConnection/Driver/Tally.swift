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
    redundantCopies += other.redundantCopies
    datagramsSpurious += other.datagramsSpurious
    probeTimeouts += other.probeTimeouts
    messageBytesSent += other.messageBytesSent
    messageBytesNeeded += other.messageBytesNeeded
    receiptBytesSent += other.receiptBytesSent
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
    statistics.redundantCopies = counters.redundantCopies
    statistics.datagramsSent = counters.datagramsSent
    statistics.datagramsReceived = counters.datagramsReceived
    statistics.datagramsLost = counters.datagramsLost
    statistics.datagramsSpurious = counters.datagramsSpurious
    statistics.probeTimeouts = counters.probeTimeouts
    statistics.messageBytesSent = counters.messageBytesSent
    statistics.messageBytesNeeded = counters.messageBytesNeeded
    statistics.receiptBytesSent = counters.receiptBytesSent
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
      statistics.take(session.pathStatistics)
    }
    published.withLock { $0 = statistics }
  }
}

extension SIMPStatistics {
  fileprivate mutating func take(_ path: PathStatistics) {
    sendingPath = SIMPPath(path.sending, isExact: true)
    receivingPath = SIMPPath(path.receiving, isExact: true)
    (sendingLoss, receivingLoss) = (path.sendingLoss, path.receivingLoss)
    if let latest = path.latestRTT {
      rtt = Duration(path.smoothedRTT)
      latestRTT = Duration(latest)
      minimumRTT = Duration(path.minimumRTT)
    }
    (congestionWindow, bytesInFlight) = (path.congestionWindow, path.bytesInFlight)
  }
}

extension SIMPPath {
  /// - Parameter isExact: tells `degraded` from `up`.
  init(_ path: PathState, isExact: Bool = false) {
    switch path {
    case .off: self = .off
    case .probing: self = .probing
    case .up: self = .up
    case .degraded: self = isExact ? .degraded : .up
    case .down: self = .down
    }
  }
}
