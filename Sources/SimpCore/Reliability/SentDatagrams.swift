/// One datagram that left: a list of messages that left together.
struct SentDatagram {
  enum State { case flying, receipted, lost, skipped }

  var number: UInt64
  var sent: Instant
  var bytes: Int
  /// It holds something that wants a receipt.
  var eliciting: Bool
  /// It wants the receipt now.
  var wanted: Bool
  var state = State.flying
  /// Copies of its messages left after it: those are waited for.
  var isRepeated = false
  var messages: [MessageKey]
  /// Where it stands in the window of losses, once it is settled.
  var place: UInt64 = 0
}

extension SentDatagram {
  /// Its receipt should come within a round trip, and tells what nothing else does.
  fileprivate var isWaitedFor: Bool { state == .flying && wanted && !isRepeated }
}

/// The datagrams of one direction that are not yet receipted: loss detection and probe timeout (RFC 9002, section 6
/// and appendix A), and how many may fly.
struct SentDatagrams {
  /// What a receipt, or time, said of datagrams.
  struct Verdict {
    /// A message, and the datagram it was in.
    typealias Carried = (key: MessageKey, number: UInt64)

    /// Messages of datagrams that arrived and were taken.
    var taken: [Carried] = []
    /// Messages of datagrams that arrived, their outcome comes on TCP.
    var answered: [Carried] = []
    /// Messages of datagrams that count as lost.
    var lost: [Carried] = []
    /// At least one datagram was receipted for the first time.
    var progress = false
  }

  private(set) var nextNumber: UInt64 = 0
  private(set) var bytesInFlight = 0
  private(set) var rtt = RTTEstimator()
  private(set) var probeTimeouts = 0
  private(set) var lostCount: UInt64 = 0
  private(set) var spuriousCount: UInt64 = 0
  /// Of those that elicit a receipt.
  private(set) var losses = LossWindow()
  private(set) var congestion = CongestionControl()
  private var pacer = Pacer()

  // BOUND: `maximumKept`; before that, bytesInFlight is bounded by the congestion window, and what is receipted or lost
  // leaves from the front.
  private var ring: [SentDatagram] = []
  private var front = 0
  /// Nothing that wants a receipt flies below this place in the ring, nothing that wants it now below that one.
  private var flyingFrom = 0
  private var wantedFrom = 0
  private var largestReceipted: UInt64?
  private var elicitingInFlight = 0
  private var wantedInFlight = 0
  private var firstSample: Instant?
  private var lastEliciting: (sent: Instant, wanted: Bool)?
  private var lossDeadline: Instant?
  private var lastTimeout = Instant(nanoseconds: 0)
  /// Probes carry what datagrams up to this number carried.
  private var probedUpTo = UInt64.max
  /// When a datagram was last receipted for the first time.
  private var lastProgress = Instant(nanoseconds: 0)
  private var skips = SkippedNumbers()
  /// What is known of the proven way, while datagrams go to an address that is not proven.
  private var former: FormerPath?

  /// Datagrams kept for their receipts. A peer that makes us answer and receipts nothing gets no further: the oldest are
  /// given up, and what was in them goes by TCP after a while. A full congestion window of full datagrams fits four times.
  static let maximumKept = 16384

  /// Datagrams whose receipts would still be understood.
  var kept: Int { ring.count - front }
  /// Bytes of a datagram with messages that the congestion window still takes. Probes and receipts always may leave.
  var room: Int { max(0, congestion.window - bytesInFlight) }
  var hasElicitingInFlight: Bool { elicitingInFlight > 0 }
  /// One that wants its receipt now flies: word of all before it is on its way.
  var hasWantedInFlight: Bool { wantedInFlight > 0 }

  /// Probes have filled more than the window: more of them carry nothing, until some is settled.
  var isOverfull: Bool {
    bytesInFlight > max(congestion.window, WireLimits.initialCongestionWindow) + WireLimits.maximumDatagramBytes
  }

  /// Half of the congestion window would be used with another datagram of `bytes`.
  func isHalfFull(with bytes: Int) -> Bool { bytesInFlight + bytes > congestion.window / 2 }

  /// Whether pacing lets a datagram with messages leave now; else `pacedUntil` says when.
  mutating func isPaced(now: Instant) -> Bool {
    !pacer.mayLeave(now: now, window: congestion.window, isIdle: bytesInFlight == 0, rtt: rtt)
  }

  /// When what pacing holds back may leave.
  var pacedUntil: Instant? { pacer.next }

  /// Something waits that the window or pacing holds back: the window is in full use.
  mutating func noteLimited() { congestion.limited(at: nextNumber) }

  /// Nothing waits.
  mutating func noteIdle() { pacer.stop() }

  mutating func takeNumber() -> UInt64 {
    defer { nextNumber += 1 }
    return nextNumber
  }

  /// From now on a number is left out at times: who receipts it did not receive what it receipts.
  ///
  /// - Parameter seed: what the peer cannot guess.
  mutating func beginSkipping(seed: UInt64) { skips.begin(seed: seed, at: nextNumber) }

  /// To be called before each datagram is begun.
  mutating func skipIfDue(now: Instant) {
    guard skips.skips(nextNumber) else { return }
    var gap = SentDatagram(eliciting: false, sent: now)
    gap.number = takeNumber()
    gap.state = .skipped
    ring.append(gap)
  }

  /// Notes a datagram that leaves; numbers come in order, without a gap.
  mutating func insert(_ datagram: SentDatagram) {
    ring.append(datagram)
    if datagram.eliciting {
      bytesInFlight += datagram.bytes
      elicitingInFlight += 1
      if datagram.wanted { wantedInFlight += 1 }
      pacer.left(bytes: datagram.bytes)
      lastEliciting = (datagram.sent, datagram.wanted)
    }
    trim(now: datagram.sent)
  }

  /// When `expire` is to be called, nil when nothing is under way.
  var deadline: Instant? {
    if let lossDeadline { return lossDeadline }
    guard elicitingInFlight > 0, let lastEliciting else { return nil }
    let timeout = currentProbeTimeout(wanted: lastEliciting.wanted)
    let oldest = flyingFrom < ring.count ? ring[flyingFrom].sent : lastEliciting.sent
    // Each new datagram starts the timer again (RFC 9002, section 6.2.1), for the receipt of the former ones is due. Not
    // when it was due for as long again, or whoever goes on talking would learn of nothing.
    let silence = max(rtt.probeTimeout(receiptDelay: WireTimes.receiptDelay) * 2, timeout)
    let usual = min(max(lastEliciting.sent, lastTimeout) + timeout, max(oldest, lastProgress, lastTimeout) + silence)
    return min(usual, overdue ?? .never)
  }

  /// When the oldest datagram that wants its receipt now is overdue, though others left after it. In a thin flow only:
  /// nothing of it waits in a queue for long, so what was not answered in time is hardly only late.
  private var overdue: Instant? {
    guard wantedInFlight > 0, wantedFrom < ring.count, isThin else { return nil }
    return max(ring[wantedFrom].sent, lastTimeout) + currentProbeTimeout(wanted: true)
  }

  /// Little flies, and the window would take much more.
  var isThin: Bool { elicitingInFlight <= Self.thin && !isHalfFull(with: 0) }
  private static let thin = 8

  private func currentProbeTimeout(wanted: Bool) -> Interval {
    let base = rtt.probeTimeout(receiptDelay: wanted ? .zero : WireTimes.receiptDelay)
    return min(base * (1 << Int64(min(probeTimeouts, 10))), rtt.patience(WireTimes.maximumProbeTimeout))
  }

  /// Takes part (a) of a receipt.
  ///
  /// - Parameter byUDP: it came by UDP, so its time tells the round trip.
  /// - Throws: `malformed` when it names a number that never left.
  mutating func receive(_ receipt: DatagramReceipt, byUDP: Bool, now: Instant) throws(WireError) -> Verdict {
    var verdict = Verdict()
    guard let largest = receipt.ranges.first?.upperBound else { return verdict }
    guard largest < nextNumber, !skips.isNamed(by: receipt) else { throw .malformed }
    var sample: Interval?
    for range in receipt.ranges {
      for index in indices(of: range) where ring[index].state != .receipted && ring[index].state != .skipped {
        let datagram = ring[index]
        if datagram.state == .lost {
          spuriousCount += 1
          losses.forgive(datagram.place)
        } else if datagram.eliciting {
          _ = losses.settle(isLost: false)
          congestion.receipted(datagram.number, bytes: datagram.bytes, sent: datagram.sent)
        }
        if datagram.number == largest, datagram.eliciting { sample = now - datagram.sent }
        settle(index, as: .receipted)
        verdict.progress = verdict.progress || datagram.eliciting
        if receipt.answered.contains(datagram.number) {
          for key in datagram.messages { verdict.answered.append((key, datagram.number)) }
        } else {
          for key in datagram.messages { verdict.taken.append((key, datagram.number)) }
        }
      }
    }
    largestReceipted = max(largestReceipted ?? 0, largest)
    if let sample, byUDP {
      rtt.update(sample: sample, receiptDelay: min(receipt.delay, WireTimes.receiptDelay))
      congestion.sampled(max(.zero, sample - receipt.delay), of: largest, nextNumber: nextNumber)
      if firstSample == nil { firstSample = now }
    }
    if verdict.progress {
      probeTimeouts = 0
      probedUpTo = .max
      lastProgress = now
    }
    detectLoss(now: now, into: &verdict)
    trim(now: now)
    return verdict
  }

  /// To be called at `deadline`.
  ///
  /// - Returns: what counts as lost, and whether a probe is due.
  mutating func expire(now: Instant) -> (verdict: Verdict, probe: Bool) {
    var verdict = Verdict()
    if let lossDeadline, lossDeadline <= now {
      detectLoss(now: now, into: &verdict)
      trim(now: now)
      return (verdict, false)
    }
    guard let deadline, deadline <= now else { return (verdict, false) }
    let isEarly = overdue.map { $0 <= now } ?? false
    // Those after it are due later.
    probedUpTo = isEarly && probeTimeouts == 0 ? ring[wantedFrom].number : .max
    probeTimeouts += 1
    lastTimeout = now
    return (verdict, true)
  }

  /// Copies of the messages of a datagram leave.
  mutating func repeated(_ number: UInt64) {
    guard let index = indices(of: number...number).first else { return }
    ring[index].isRepeated = true
  }

  /// Messages of the oldest datagrams under way, to be sent once more as a probe: of all, or up to the one that is overdue.
  func oldestMessages(limit: Int) -> [MessageKey] {
    var keys: [MessageKey] = []
    for datagram in ring[front...] where datagram.state == .flying && datagram.number <= probedUpTo {
      keys += datagram.messages
      if keys.count >= limit { break }
    }
    return keys
  }

  /// Datagrams go to an address from now on that is not proven. Nothing is known of the way to another machine (RFC 9000,
  /// section 9.4); what is known of the proven one is kept, for it may be gone back to.
  mutating func pathChanged(isOtherMachine: Bool) {
    var former = former ?? FormerPath(firstElsewhere: nextNumber)
    defer { self.former = former }
    guard isOtherMachine else { return }
    former.known = former.known ?? (rtt, congestion, firstSample)
    rtt = RTTEstimator()
    congestion.startAnew()
    pacer = Pacer()
    firstSample = nil
  }

  /// Datagrams go to the proven address again, for nobody proved the other one (RFC 9000, section 9.3.2): the round trip
  /// and the window are what they were. What flew elsewhere has left that window, and is no loss of this way; its messages
  /// are to be sent again.
  mutating func pathRestored(now: Instant) -> Verdict {
    var verdict = Verdict()
    guard let former else { return verdict }
    self.former = nil
    if let known = former.known {
      rtt = known.rtt
      congestion.goBack(to: known.congestion)
      firstSample = known.firstSample
      pacer = Pacer()
    }
    for index in indices(of: former.firstElsewhere...UInt64.max) where ring[index].state == .flying {
      guard ring[index].eliciting else { continue }
      settle(index, as: .lost)
      for key in ring[index].messages { verdict.lost.append((key, ring[index].number)) }
    }
    detectLoss(now: now, into: &verdict)
    trim(now: now)
    return verdict
  }

  /// The address that datagrams go to is proven: no other is gone back to.
  mutating func pathConfirmed() { former = nil }

  /// The path is down: what flies is nobody's concern any more, and the count of probes starts again. A receipt that
  /// still comes is taken.
  mutating func abandonFlight() {
    for index in front..<ring.count where ring[index].state == .flying { settle(index, as: .lost) }
    probeTimeouts = 0
    lossDeadline = nil
    lastEliciting = nil
    pacer.stop()
    // Seven probe timeouts without a word are more than persistent congestion.
    congestion.collapse()
  }

  private func indices(of range: ClosedRange<UInt64>) -> Range<Int> {
    guard front < ring.count else { return 0..<0 }
    let first = ring[front].number
    guard range.upperBound >= first else { return 0..<0 }
    let low = front + Int(max(range.lowerBound, first) - first)
    let high = front + Int(min(range.upperBound - first, UInt64(ring.count - front - 1)))
    return low <= high ? low..<high + 1 : 0..<0
  }

  private mutating func settle(_ index: Int, as state: SentDatagram.State) {
    if ring[index].state == .flying, ring[index].eliciting {
      bytesInFlight -= ring[index].bytes
      elicitingInFlight -= 1
      if ring[index].wanted { wantedInFlight -= 1 }
    }
    ring[index].state = state
  }

  private mutating func detectLoss(now: Instant, into verdict: inout Verdict) {
    lossDeadline = nil
    guard let largestReceipted else { return }
    let delay = rtt.lossDelay
    var span = LossSpan()
    var index = front
    while index < ring.count, ring[index].number < largestReceipted {
      defer { index += 1 }
      if ring[index].state == .receipted { span.interrupt() }
      guard ring[index].state == .flying else { continue }
      if largestReceipted - ring[index].number >= 3 || ring[index].sent + delay <= now {
        settle(index, as: .lost)
        guard ring[index].eliciting else { continue }
        lostCount += 1
        ring[index].place = losses.settle(isLost: true)
        span.add(ring[index].sent, since: firstSample)
        for key in ring[index].messages { verdict.lost.append((key, ring[index].number)) }
      } else if ring[index].eliciting {
        lossDeadline = min(lossDeadline ?? .never, ring[index].sent + delay)
      }
    }
    guard let last = span.last else { return }
    congestion.lost(sent: last, now: now)
    if span.longest > rtt.persistentCongestion { congestion.collapse() }
  }

  /// Forgets what is settled at the front; what was lost stays for a while, so that a late receipt still counts.
  private mutating func trim(now: Instant) {
    while flyingFrom < ring.count, ring[flyingFrom].state != .flying || !ring[flyingFrom].eliciting { flyingFrom += 1 }
    wantedFrom = max(wantedFrom, flyingFrom)
    while wantedFrom < ring.count, !ring[wantedFrom].isWaitedFor { wantedFrom += 1 }
    while front < ring.count {
      let datagram = ring[front]
      switch datagram.state {
      case .receipted, .skipped: break
      case .lost where datagram.sent + .seconds(3) <= now || ring.count - front > 4096: break
      case .flying where !datagram.eliciting: break
      case .flying where ring.count - front > Self.maximumKept: settle(front, as: .lost)
      default: return compact()
      }
      front += 1
    }
    compact()
  }

  private mutating func compact() {
    if front > 64, front > ring.count / 2 {
      ring.removeSubrange(0..<front)
      flyingFrom -= min(flyingFrom, front)
      wantedFrom -= min(wantedFrom, front)
      front = 0
    }
  }
}

/// The proven way, while datagrams go elsewhere.
private struct FormerPath {
  /// The number of the first that went elsewhere.
  var firstElsewhere: UInt64
  /// Of the way; nil while datagrams go to the same machine.
  var known: (rtt: RTTEstimator, congestion: CongestionControl, firstSample: Instant?)?
}

/// Over which time all that was sent is lost, among what is declared lost together (RFC 9002, section 7.6.2).
private struct LossSpan {
  private(set) var longest = Interval.zero
  /// When the last lost one left.
  private(set) var last: Instant?
  private var start: Instant?

  /// What left next arrived.
  mutating func interrupt() { start = nil }

  /// - Parameter since: the first sample of the round trip; what left before it says nothing.
  mutating func add(_ sent: Instant, since: Instant?) {
    last = max(last ?? sent, sent)
    guard let since, sent > since else { return }
    let begin = start ?? sent
    start = begin
    longest = max(longest, sent - begin)
  }
}
