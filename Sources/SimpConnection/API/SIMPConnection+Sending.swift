internal import SimpCore
internal import SimpIO

extension SIMPConnection {
  /// Sends a text, and returns when a server has it (`accepted`), or refused it for now (`later`: it stays in the
  /// outbox and is offered again). `receipt.delivered` waits for more.
  ///
  /// Cancelling the task ends the wait, not the message.
  ///
  /// With a store the message is in it, on the disk, before this returns, and before it leaves.
  ///
  /// - Throws: `invalidName`, `invalidText`, `tooLarge`, `outboxFull`, `storeFailed`, `closed`: nothing was taken.
  ///   `rejected`: never.
  ///   `cancelled`, or why the connection ended: the message may or may not arrive.
  @discardableResult
  public func send(_ text: String, to user: String) async throws(SIMPError) -> SIMPReceipt {
    try await send(SIMPContent(text: text), to: user)
  }

  /// Sends any content; as `send(_:to:)` with a text.
  @discardableResult
  public func send(_ content: SIMPContent, to user: String) async throws(SIMPError) -> SIMPReceipt {
    let receipt = try take(content, to: user, isAwaited: true)
    try await receipt.accepted()
    return receipt
  }

  /// Sends a text without waiting for anything. Messages of one caller to one user keep their order. With a store,
  /// `receipt.kept()` waits until the message is in it.
  ///
  /// - Throws: `invalidName`, `invalidText`, `tooLarge`, `outboxFull`, `closed`, or why the connection ended: nothing
  ///   was taken.
  @discardableResult
  public func post(_ text: String, to user: String) throws(SIMPError) -> SIMPReceipt {
    try take(SIMPContent(text: text), to: user, isAwaited: false)
  }

  /// Sends any content without waiting; as `post(_:to:)` with a text.
  @discardableResult
  public func post(_ content: SIMPContent, to user: String) throws(SIMPError) -> SIMPReceipt {
    try take(content, to: user, isAwaited: false)
  }

  private func take(_ content: SIMPContent, to user: String, isAwaited: Bool) throws(SIMPError) -> SIMPReceipt {
    guard Text.isUserName(user) else {
      throw SIMPError(.invalidName, "'\(user)' is not a user name: 1 to 64 of A-Z a-z 0-9 . _ @ -")
    }
    let message = content.message(time: EventLoop.wallClockMilliseconds)
    guard message.isValidText else { throw SIMPError(.invalidText, "a text must not hold U+0000") }
    guard message.size <= WireLimits.maximumContentBytes else {
      throw SIMPError(.tooLarge, "a message of \(message.size) bytes is over \(WireLimits.maximumContentBytes)")
    }
    let receipt = SIMPReceipt(lock: driver.receiptLock)
    let letter = Letter(
      content: message, user: user, receipt: receipt, posted: driver.thread.loop.now, isAwaited: isAwaited)
    let (limitMessages, limitBytes) = (driver.configuration.outboxMessages, driver.configuration.outboxBytes)
    let taken = driver.outgoing.change { outgoing in
      Result { () throws(SIMPError) in
        try outgoing.append(letter, limitMessages: limitMessages, limitBytes: limitBytes)
      }
    }
    try taken.get()
    driver.schedule()
    return receipt
  }
}
