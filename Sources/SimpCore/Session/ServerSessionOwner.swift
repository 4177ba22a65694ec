/// What a server decides about a message that a client sent.
public enum MessageVerdict: Hashable, Sendable {
  /// It is in memory, now or already before.
  case held
  /// It is a copy of one that is finished: what the sender was told is told again, if anything.
  case finished(MessageState?)
  /// Not now.
  case later(ErrorCode, retryAfter: Interval)
  /// Never.
  case rejected(ErrorCode)
}

/// Who decides for a server's sessions: the switchboard. All calls come from within the session's own calls.
public protocol ServerSessionOwner: AnyObject {
  /// To be answered with `accept` or `refuse`, now or later.
  func session(_ session: ServerSession, wantsLogin login: Login, now: Instant)
  /// A message whose form is right.
  func session(
    _ session: ServerSession, received fields: MessageFields, payload: Span<UInt8>, now: Instant
  ) -> MessageVerdict
  /// The client says what became of messages that were handed to it: DELIVERED, READ, or LATER for want of room.
  func session(_ session: ServerSession, reported outcome: Outcome, now: Instant)
  /// The client says back what it was told with `report(kept:to:orders:now:)`.
  func session(_ session: ServerSession, heard outcome: Outcome, now: Instant)
  /// To be answered with `answer` or `refuse(_:_:)`, now or later.
  func session(_ session: ServerSession, asks request: SessionRequest, ticket: RequestTicket, now: Instant)
  func session(_ session: ServerSession, provedPath address: PeerAddress, now: Instant)
  func sessionPathWentDown(_ session: ServerSession, now: Instant)
  /// The session is over, by whoever's doing; the connection closes when its stream is written.
  func session(_ session: ServerSession, endedWith refusal: Refusal, now: Instant)
}

extension ServerSessionOwner {
  /// An owner that keeps none.
  public func session(_ session: ServerSession, heard outcome: Outcome, now: Instant) {}

  /// An owner that knows no requests.
  public func session(
    _ session: ServerSession, asks request: SessionRequest, ticket: RequestTicket, now: Instant
  ) {
    session.refuse(ticket, Refusal(.unknownCommand, "this is not served here"))
  }
}
