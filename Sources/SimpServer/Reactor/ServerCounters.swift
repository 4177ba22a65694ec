internal import SimpSupport

/// What one server counts, all its reactors together.
struct ServerCounters: Sendable {
  let logins: Counter
  let loginsRefused: Counter
  /// TLS handshakes done, those of them that took up an earlier session, and those that failed.
  let handshakes: Counter
  let handshakesResumed: Counter
  let handshakesFailed: Counter
  /// Messages handed to a recipient's session.
  let relayed: Counter
  let delivered: Counter
  /// Messages answered LATER.
  let later: Counter
  /// Copies of messages that were pending here.
  let copiesDropped: Counter
  /// Datagrams that belong to no session here.
  let strangers: Counter

  init(_ registry: CounterRegistry) {
    logins = registry.counter("simp_logins_total")
    loginsRefused = registry.counter("simp_logins_refused_total")
    handshakes = registry.counter("simp_tls_handshakes_total")
    handshakesResumed = registry.counter("simp_tls_handshakes_resumed_total")
    handshakesFailed = registry.counter("simp_tls_handshakes_failed_total")
    relayed = registry.counter("simp_messages_relayed_total")
    delivered = registry.counter("simp_messages_delivered_total")
    later = registry.counter("simp_messages_later_total")
    copiesDropped = registry.counter("simp_message_copies_dropped_total")
    strangers = registry.counter("simp_datagrams_strangers_total")
  }
}
