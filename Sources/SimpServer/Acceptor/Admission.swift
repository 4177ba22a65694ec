internal import SimpCore
internal import SimpIO

/// Who may connect and log in, for all reactors of a server: none of it is on the way of a datagram, and a turn of the
/// loop asks a few times at most.
final class Admission: Sendable {
  enum Verdict {
    case admitted
    /// May shake hands, to be told why its login is refused.
    case told(Refusal)
    /// Closed at once: so many are told already that telling more would be work for an attacker.
    case dropped
  }

  private struct State {
    var connections = 0
    // BOUND: an entry has at least one open connection, and those are bounded.
    var bySource: [PeerSource: Int] = [:]
    var handshakes: TokenBucket
    var logins: TokenBucket
  }

  private let limits: ServerLimits
  private let state: Locked<State>

  init(_ limits: ServerLimits) {
    self.limits = limits
    state = Locked(
      State(
        // A burst of handshakes takes 4 ms at most.
        handshakes: TokenBucket(perSecond: limits.handshakesPerSecond, burst: min(limits.handshakesPerSecond, 8)),
        logins: TokenBucket(perSecond: limits.loginsPerSecond, burst: 2 * limits.loginsPerSecond)))
  }

  /// A connection was accepted. Unless it is dropped, `leave` follows when it is closed.
  func enter(_ address: PeerAddress) -> Verdict {
    let source = PeerSource(address)
    let isLimited = limits.isLoopbackLimited || !address.isLoopback
    return state.withLock { state in
      let mine = state.bySource[source, default: 0]
      let verdict: Verdict
      if isLimited, mine >= limits.connectionsPerAddress {
        verdict =
          mine < limits.connectionsPerAddress + ServerLimits.toldPerAddress
          ? .told(
            Refusal(
              .tooManyConnections, "this server takes \(limits.connectionsPerAddress) connections from an address",
              retryAfterMilliseconds: 5000))
          : .dropped
      } else if state.connections >= limits.connections {
        verdict =
          state.connections < limits.connections + ServerLimits.toldConnections
          ? .told(Refusal(.tooManyConnections, "this server is full", retryAfterMilliseconds: 5000)) : .dropped
      } else {
        verdict = .admitted
      }
      if case .dropped = verdict { return verdict }
      state.connections += 1
      state.bySource[source] = mine + 1
      return verdict
    }
  }

  func leave(_ address: PeerAddress) {
    let source = PeerSource(address)
    state.withLock { state in
      state.connections -= 1
      let left = state.bySource[source, default: 1] - 1
      state.bySource[source] = left == 0 ? nil : left
    }
  }

  /// - Returns: nil when a handshake may begin now, else when to ask again.
  func handshake(now: Instant) -> Interval? { state.withLock { $0.handshakes.take(now: now) } }

  /// It came to none.
  func giveBackHandshake() { state.withLock { $0.handshakes.giveBack(1) } }

  /// - Returns: nil when a login may go on, else when to ask again.
  func login(now: Instant) -> Interval? { state.withLock { $0.logins.take(now: now) } }

  /// Connections and sources that are counted, for tests.
  var counts: (connections: Int, sources: Int) { state.withLock { ($0.connections, $0.bySource.count) } }
}
