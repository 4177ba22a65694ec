import SimpCore

/// What one direction of a datagram path does to what is sent over it.
struct LinkConditions: Sendable {
  /// Chance that a datagram is lost, each by itself.
  var loss = 0.0
  /// Chance that a burst begins at a datagram, and that it ends there; inside a burst all is lost.
  var burstBegins = 0.0
  var burstEnds = 1.0
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
  /// When nothing passes.
  var off: [Range<Instant>] = []
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

  static func += (left: inout LinkCounters, right: LinkCounters) {
    left.offered += right.offered
    left.delivered += right.delivered
    left.lost += right.lost
    left.duplicated += right.duplicated
    left.replayed += right.replayed
    left.reordered += right.reordered
    left.corrupted += right.corrupted
    left.blocked += right.blocked
  }

  var text: String {
    "offered \(offered) delivered \(delivered) lost \(lost) doubled \(duplicated) played again \(replayed) overtaken \(reordered) "
      + "broken \(corrupted) blocked \(blocked)"
  }
}
