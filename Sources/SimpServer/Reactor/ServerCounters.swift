internal import SimpCore
internal import SimpSupport

/// What one server counts, all its reactors together.
struct ServerCounters: Sendable {
  let registry: CounterRegistry
  let logins: Counter
  let loginsRefused: Counter
  /// Sessions that went on with a new token, and users sent away.
  let renewals: Counter
  let kicks: Counter
  /// Connections closed at once, or refused at their login, because there are too many: from one address, in all.
  let connectionsRefused: Counter
  /// Connections that had not logged in when too many newer ones came.
  let connectionsDisplaced: Counter
  /// Logins refused because the loop was late, and because there were too many a second.
  let loginsRefusedByLoad: Counter
  let loginsRefusedByRate: Counter
  /// Sessions ended because the client did not read.
  let sessionsNotReading: Counter
  /// TLS handshakes that had to wait, those done, those of them that took up an earlier session, and those that failed.
  let handshakesDelayed: Counter
  let handshakes: Counter
  let handshakesResumed: Counter
  let handshakesFailed: Counter
  /// Messages handed to a recipient's session.
  let relayed: Counter
  let delivered: Counter
  /// Messages answered LATER.
  let later: Counter
  /// Of them those over the rate of their user, and those for which all recipients together hold too much.
  let rateLimited: Counter
  let heldFull: Counter
  /// Copies of messages that were pending here.
  let copiesDropped: Counter
  /// Of sessions that are over, towards their clients: bytes of the packets of messages, of the first transmission of
  /// each, and of receipts; messages sent again; datagrams taken for lost, and those of them that were late only.
  let messageBytesSent: Counter
  let messageBytesNeeded: Counter
  let receiptBytesSent: Counter
  let retransmissions: Counter
  let escalations: Counter
  let datagramsLost: Counter
  let datagramsSpurious: Counter
  /// Datagrams that belong to no session here.
  let strangers: Counter

  init(_ registry: CounterRegistry) {
    self.registry = registry
    logins = registry.counter("simp_logins_total")
    loginsRefused = registry.counter("simp_logins_refused_total")
    renewals = registry.counter("simp_token_renewals_total")
    kicks = registry.counter("simp_kicks_total")
    connectionsRefused = registry.counter("simp_connections_refused_total")
    connectionsDisplaced = registry.counter("simp_connections_displaced_total")
    loginsRefusedByLoad = registry.counter("simp_logins_refused_load_total")
    loginsRefusedByRate = registry.counter("simp_logins_refused_rate_total")
    sessionsNotReading = registry.counter("simp_sessions_not_reading_total")
    handshakesDelayed = registry.counter("simp_tls_handshakes_delayed_total")
    handshakes = registry.counter("simp_tls_handshakes_total")
    handshakesResumed = registry.counter("simp_tls_handshakes_resumed_total")
    handshakesFailed = registry.counter("simp_tls_handshakes_failed_total")
    relayed = registry.counter("simp_messages_relayed_total")
    delivered = registry.counter("simp_messages_delivered_total")
    later = registry.counter("simp_messages_later_total")
    rateLimited = registry.counter("simp_messages_rate_limited_total")
    heldFull = registry.counter("simp_messages_held_full_total")
    copiesDropped = registry.counter("simp_message_copies_dropped_total")
    messageBytesSent = registry.counter("simp_message_bytes_sent_total")
    messageBytesNeeded = registry.counter("simp_message_bytes_needed_total")
    receiptBytesSent = registry.counter("simp_receipt_bytes_sent_total")
    retransmissions = registry.counter("simp_messages_retransmitted_total")
    escalations = registry.counter("simp_messages_escalated_total")
    datagramsLost = registry.counter("simp_datagrams_lost_total")
    datagramsSpurious = registry.counter("simp_datagrams_spurious_total")
    strangers = registry.counter("simp_datagrams_strangers_total")
  }

  /// A session is over.
  func add(_ session: ChannelCounters) {
    messageBytesSent.add(session.messageBytesSent)
    messageBytesNeeded.add(session.messageBytesNeeded)
    receiptBytesSent.add(session.receiptBytesSent)
    retransmissions.add(session.retransmissions)
    escalations.add(session.messagesEscalated)
    datagramsLost.add(session.datagramsLost)
    datagramsSpurious.add(session.datagramsSpurious)
  }
}
