import SimpCore

/// What one direction of a datagram path does to what is sent over it.
struct LinkConditions: Sendable {
  /// Chance that a datagram is lost, each by itself.
  var loss = 0.0
  /// Chance that a burst begins at a datagram, and that it ends there; inside a burst `burstLoss` is lost (the model of
  /// Gilbert and Elliott).
  var burstBegins = 0.0
  var burstEnds = 1.0
  var burstLoss = 1.0
  var duplication = 0.0
  /// Chance that a datagram is late by up to `reorderingDelay`.
  var reordering = 0.0
  var reorderingDelay = Interval.milliseconds(40)
  var delay = Interval.milliseconds(10)
  /// Chance that one bit is turned.
  var corruption = 0.0
  /// How many copies of each datagram somebody plays again, at any time up to `replaySpread` later.
  var replays = 0
  var replaySpread = Interval.seconds(4)
  /// Exactly these datagrams are dropped, counted from 0 since the run began.
  var dropped: Set<Int> = []
  /// Every datagram with a receipt is dropped, with whatever else is in it.
  var dropsReceipts = false
  /// When nothing passes.
  var off: [Range<Instant>] = []
  /// Bytes a second that pass, IP and UDP headers not counted; 0: any number. What does not pass at once waits in a queue.
  var bytesPerSecond = 0
  /// Datagrams in that queue at most; more are dropped.
  var queue = 50
  /// Larger datagrams vanish, in bytes.
  var largest = Int.max
  /// Datagrams that wait in the socket of a receiver that does not run.
  var socket = 128
}

/// What one direction did. A run whose link did nothing shows nothing.
struct LinkCounters: Hashable, Sendable {
  var offered = 0
  var delivered = 0
  var lost = 0
  var duplicated = 0
  var replayed = 0
  var reordered = 0
  var corrupted = 0
  var blocked = 0
  /// Dropped for the receipt in them.
  var receiptsDropped = 0
  /// Waited for the link, and found its queue full.
  var queued = 0
  var overflowed = 0
  var tooLarge = 0
  /// Waited for a receiver that did not run, and found its socket full.
  var sleptOver = 0
  var overrun = 0

  static func += (left: inout LinkCounters, right: LinkCounters) {
    left.offered += right.offered
    left.delivered += right.delivered
    left.lost += right.lost
    left.duplicated += right.duplicated
    left.replayed += right.replayed
    left.reordered += right.reordered
    left.corrupted += right.corrupted
    left.blocked += right.blocked
    left.receiptsDropped += right.receiptsDropped
    left.queued += right.queued
    left.overflowed += right.overflowed
    left.tooLarge += right.tooLarge
    left.sleptOver += right.sleptOver
    left.overrun += right.overrun
  }

  var dropped: Int { lost + blocked + receiptsDropped + overflowed + tooLarge + overrun }

  /// What every run shows, and of the rest what happened.
  var text: String {
    let rare = [
      ("lost", lost), ("blocked", blocked), ("for a receipt", receiptsDropped), ("queue full", overflowed),
      ("too large", tooLarge), ("socket full", overrun),
    ].filter { $0.1 > 0 }.map { "\($0.0) \($0.1)" }.joined(separator: ", ")
    let others = [
      ("played again", replayed), ("queued", queued), ("slept over", sleptOver),
    ].filter { $0.1 > 0 }.map { " \($0.0) \($0.1)" }.joined()
    return
      "sent \(offered) arrived \(delivered) dropped \(dropped)\(rare.isEmpty ? "" : " (\(rare))") doubled \(duplicated) "
      + "overtaken \(reordered) broken \(corrupted)\(others)"
  }
}
