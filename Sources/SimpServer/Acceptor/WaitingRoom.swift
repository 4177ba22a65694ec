internal import SimpCore

/// Connections that are not in yet, a bounded number of them. When there are too many, one of the source that has more
/// than its share gives way, or of all where all have the same: the oldest that has not said yet what it is asked for,
/// for an honest one soon does; else the oldest that was answered and has gone on with nothing for a while.
///
/// Else it is the newcomer that goes, and comes again later. To send those away who are being served would serve nobody
/// when a crowd comes at once: each would be displaced before its turn, and come again.
struct WaitingRoom {
  // Each is in `all`; and in one of the others, or in line for its answer.
  private var all = FairQueue()
  private var silent = FairQueue()
  private var answered = FairQueue()
  private var answeredAt: [UInt64: Instant] = [:]

  /// What an honest client has for its next step: a few round trips, and a busy machine.
  static let patience = Interval.seconds(8)

  var count: Int { all.count }

  /// - Parameter id: rises from one to the next.
  mutating func append(_ id: UInt64, from source: PeerSource) {
    all.append(id, from: source)
    silent.append(id, from: source)
  }

  /// It has said what it is asked for, and stands in line for the answer.
  mutating func markSpoken(_ id: UInt64) { silent.remove(id) }

  /// It has its answer, and something to say again.
  mutating func markAnswered(_ id: UInt64, now: Instant) {
    guard let source = all.source(of: id), answeredAt[id] == nil else { return }
    silent.remove(id)
    answered.append(id, from: source)
    answeredAt[id] = now
  }

  mutating func remove(_ id: UInt64) {
    all.remove(id)
    silent.remove(id)
    answered.remove(id)
    answeredAt[id] = nil
  }

  /// Takes out the one that gives way to a newcomer, which may be the newcomer.
  mutating func displace(for newcomer: UInt64, from source: PeerSource, now: Instant) -> UInt64? {
    let greedy = all.greedy(for: source)
    func oldest(_ queue: inout FairQueue) -> UInt64? {
      if let greedy { queue.oldest(of: greedy) } else { queue.oldest }
    }
    let slow = oldest(&answered)
    let gone: UInt64?
    if let mute = oldest(&silent), mute != newcomer {
      gone = mute
    } else if let slow, let since = answeredAt[slow], since + Self.patience <= now {
      gone = slow
    } else if greedy == nil || greedy == source {
      gone = newcomer
    } else {
      gone = slow ?? oldest(&all)
    }
    if let gone { remove(gone) }
    return gone
  }
}
