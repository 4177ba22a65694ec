internal import SimpCore
internal import SimpIO
internal import SimpSupport

/// What all reactors of one server share.
final class ServerShared: Sendable {
  let node: String
  /// Of the server that had the state directory before, and is gone: its endpoints are nobody's.
  let formerNode: String?
  let reactors: Int
  let tokens: TokenAuthority
  /// nil with TLS off.
  let tls: TLSServerContext?
  let keyLimits: KeyLimits
  let log: Log
  let counters: ServerCounters
  let limits: ServerLimits
  let admission: Admission
  let rates: UserRates
  /// Never falls within a process; Redis raises it above what it has stored.
  private let epoch = Locked<UInt64>(0)
  private let list = Locked<[Reactor]>([])

  init(
    node: String, formerNode: String?, reactors: Int, tokens: TokenAuthority, tls: TLSServerContext?,
    keyLimits: KeyLimits, log: Log,
    counters: ServerCounters, limits: ServerLimits
  ) {
    self.node = node
    self.formerNode = formerNode
    self.reactors = reactors
    self.tokens = tokens
    self.tls = tls
    self.keyLimits = keyLimits
    self.log = log
    self.counters = counters
    self.limits = limits
    admission = Admission(limits)
    rates = UserRates(limits)
  }

  /// The reactors by number. Set once, before any of them runs.
  var all: [Reactor] { list.withLock { $0 } }
  func set(_ reactors: [Reactor]) { list.withLock { $0 = reactors } }

  func nextEpoch() -> UInt64 {
    epoch.withLock { last in
      last = max(EventLoop.wallClockSeconds << 20, last + 1)
      return last
    }
  }
}
