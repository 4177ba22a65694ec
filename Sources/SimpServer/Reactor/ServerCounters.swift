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
  /// Connections that had not logged in when their time was over, and sessions that were silent for too long.
  let loginsTimedOut: Counter
  let sessionsSilent: Counter
  /// Messages handed to a recipient's session.
  let relayed: Counter
  let delivered: Counter
  /// Messages answered LATER.
  let later: Counter
  /// Of them those over the rate of their user, those over the window of their session, those for which their
  /// recipient's session holds too much, and those for which all recipients together do.
  let rateLimited: Counter
  let windowFull: Counter
  let pendingFull: Counter
  let heldFull: Counter
  /// Messages put into an inbox, those refused because it was full, those handed over out of one, and how often a
  /// recipient who was there got behind.
  let stored: Counter
  let inboxFull: Counter
  /// Stored messages that nobody took in time.
  let expired: Counter
  let caughtUp: Counter
  let spills: Counter
  /// Of messages that were STORED: those whose further fate was told to their senders, those of whom it was given up.
  let marksTold: Counter
  let marksLost: Counter
  /// Copies of messages that were pending here.
  let copiesDropped: Counter
  /// Of sessions that are over, towards their clients: bytes of the packets of messages, of the first transmission of
  /// each, and of receipts; messages sent again, and those sent twice before anything was lost; datagrams taken for
  /// lost, and those of them that were late only.
  let messageBytesSent: Counter
  let messageBytesNeeded: Counter
  let receiptBytesSent: Counter
  let retransmissions: Counter
  let redundantCopies: Counter
  let escalations: Counter
  let datagramsLost: Counter
  let datagramsSpurious: Counter
  /// Datagrams that belong to no session here.
  let strangers: Counter
  /// Sources whose datagrams the kernel was asked to drop.
  let floodsRefused: Counter
  /// What the channels of all sessions counted.
  private let channels: [ChannelCount]

  private struct ChannelCount: Sendable {
    let total: Counter
    let value: @Sendable (ChannelCounters) -> UInt64
  }

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
    loginsTimedOut = registry.counter("simp_logins_timed_out_total")
    sessionsSilent = registry.counter("simp_sessions_silent_total")
    relayed = registry.counter("simp_messages_relayed_total")
    delivered = registry.counter("simp_messages_delivered_total")
    later = registry.counter("simp_messages_later_total")
    rateLimited = registry.counter("simp_messages_rate_limited_total")
    windowFull = registry.counter("simp_messages_window_full_total")
    pendingFull = registry.counter("simp_messages_pending_full_total")
    heldFull = registry.counter("simp_messages_held_full_total")
    stored = registry.counter("simp_messages_stored_total")
    expired = registry.counter("simp_messages_expired_total")
    inboxFull = registry.counter("simp_messages_inbox_full_total")
    caughtUp = registry.counter("simp_messages_caught_up_total")
    spills = registry.counter("simp_inbox_spills_total")
    marksTold = registry.counter("simp_marks_told_total")
    marksLost = registry.counter("simp_marks_lost_total")
    copiesDropped = registry.counter("simp_message_copies_dropped_total")
    messageBytesSent = registry.counter("simp_message_bytes_sent_total")
    messageBytesNeeded = registry.counter("simp_message_bytes_needed_total")
    receiptBytesSent = registry.counter("simp_receipt_bytes_sent_total")
    retransmissions = registry.counter("simp_messages_retransmitted_total")
    redundantCopies = registry.counter("simp_messages_redundant_total")
    escalations = registry.counter("simp_messages_escalated_total")
    datagramsLost = registry.counter("simp_datagrams_lost_total")
    datagramsSpurious = registry.counter("simp_datagrams_spurious_total")
    strangers = registry.counter("simp_datagrams_strangers_total")
    floodsRefused = registry.counter("simp_floods_refused_total")
    let values: [(String, @Sendable (ChannelCounters) -> UInt64)] = [
      ("simp_datagrams_received_total", { $0.datagramsReceived }),
      ("simp_datagrams_sent_total", { $0.datagramsSent }),
      ("simp_datagrams_replayed_total", { $0.datagramsReplayed }),
      ("simp_datagrams_forged_total", { $0.datagramsForged }),
      ("simp_datagrams_untried_total", { $0.datagramsUntried }),
      ("simp_datagrams_out_of_phase_total", { $0.datagramsOutOfPhase }),
      ("simp_datagrams_malformed_total", { $0.datagramsMalformed }),
      ("simp_receipts_false_total", { $0.receiptsFalse }),
      ("simp_key_changes_total", { $0.keyChanges }),
      ("simp_key_changes_of_clients_total", { $0.keyChangesOfPeer }),
      ("simp_key_changes_too_soon_total", { $0.keyChangesTooSoon }),
      ("simp_messages_too_large_total", { $0.messagesTooLarge }),
    ]
    channels = values.map { ChannelCount(total: registry.counter($0.0), value: $0.1) }
  }

  /// Adds what a session's channels counted.
  ///
  /// - Parameter earlier: what of it was added before.
  func add(_ counters: ChannelCounters, since earlier: ChannelCounters) {
    for channel in channels {
      let news = channel.value(counters) - channel.value(earlier)
      if news > 0 { channel.total.add(news) }
    }
  }

  /// A session is over.
  func add(_ session: ChannelCounters) {
    messageBytesSent.add(session.messageBytesSent)
    messageBytesNeeded.add(session.messageBytesNeeded)
    receiptBytesSent.add(session.receiptBytesSent)
    retransmissions.add(session.retransmissions)
    redundantCopies.add(session.redundantCopies)
    escalations.add(session.messagesEscalated)
    datagramsLost.add(session.datagramsLost)
    datagramsSpurious.add(session.datagramsSpurious)
  }
}
