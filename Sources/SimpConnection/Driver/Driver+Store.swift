internal import SimpCore
internal import SimpIO
internal import SimpStore

/// What a connection finds in its store when it is made.
struct Restored {
  var outbox: Outbox
  var open: [MessageKey: Driver.OpenMessage] = [:]
  /// Of the messages in `open`, oldest first.
  var receipts: [SIMPReceipt] = []
  var owner = StoreOwner()
  var received: [ReceivedMessage] = []
  var marks: [StoreContents.Mark] = []
}

extension Restored {
  /// Without a store.
  init() {
    var id = RandomBytes.uint64()
    while id == 0 { id = RandomBytes.uint64() }
    // The limits are kept by `Outgoing`.
    outbox = Outbox(id: id, limitMessages: .max, limitBytes: .max)
  }

  init(_ contents: StoreContents, receiptLock: Locked<Bool>, now: Instant) {
    let (outbox, keys) = Outbox.restore(contents.outbox, limitMessages: .max, limitBytes: .max, now: now)
    self.outbox = outbox
    for (message, key) in zip(contents.outbox.messages, keys) {
      let receipt = SIMPReceipt(lock: receiptLock)
      receipt.identify(outbox.messageId(of: key))
      receipt.keep()
      open[key] = Driver.OpenMessage(
        receipt: receipt, posted: now, bytes: message.content.size, counter: message.counter)
      receipts.append(receipt)
    }
    owner = contents.owner
    received = contents.received
    marks = contents.marks
  }
}

extension Driver {
  /// Brings what the store held to where it belongs. Before the driver is used.
  func takeIn(_ restored: Restored, _ contents: StoreContents, now: Instant) {
    outgoing.change { outgoing in
      for message in restored.open.values { outgoing.restore(bytes: message.bytes) }
      for (user, next) in contents.outbox.nextOrders { outgoing.lastOrders[user] = next - 1 }
    }
    for mark in restored.marks {
      inbound.restore(from: mark.user, device: mark.device, map: mark.map, now: now)
    }
    guard !configuration.isSendOnly else { return }
    for received in restored.received { intake.restored(received.message) }
    inbox.change { $0.append(restored.received.map { show($0) }) }
  }

  /// What the store's thread did. On the loop.
  func handle(_ report: StoreWriter.Report) {
    let now = thread.loop.now
    switch report {
    case .sent(let sent): stored(sent, now: now)
    case .refused(let letters, let error): refuse(letters, error, now: now)
    case .received(let received): stored(received, now: now)
    case .failing(let error): if phase != .over { show(.storeFailed(error)) }
    case .loggedIn(let login, let error):
      if error == nil { writtenLogin = login }
      guard unwrittenLogin == login else { return }
      unwrittenLogin = nil
      if let error { lost(error, now: now) }
    }
    markDirty()
  }

  /// From here on the messages may leave: whatever happens to this process, they are not forgotten.
  private func stored(_ sent: [(letter: Letter, counter: UInt64, order: UInt64)], now: Instant) {
    guard phase != .over else {
      for (letter, _, _) in sent {
        letter.receipt.keep()
        letter.receipt.abandon(SIMPError(.closed, "the connection is closed; the message is in the store"))
      }
      return
    }
    for (letter, counter, order) in sent {
      let (key, number) = enter(letter)
      precondition(number == counter && key.order == order, "store and outbox number alike")
      letter.receipt.keep()
    }
    session?.wake(isAwaited: sent.contains { $0.letter.isAwaited })
  }

  private func refuse(_ letters: [Letter], _ error: SIMPError, now: Instant) {
    for letter in letters {
      letter.receipt.finish(
        .rejected, outcome: .failure(error), isLast: true, sent: nil, after: now - letter.posted)
    }
    outgoing.update { $0.finish(messages: letters.count, bytes: letters.reduce(0) { $0 + $1.content.size }) }
  }

  private func stored(_ received: [ReceivedMessage], now: Instant) {
    guard phase != .over else { return }
    for message in received { intake.committed(message.message) }
    inbox.update { $0.append(received.map { show($0) }) }
    sayDelivered(now: now)
  }

  /// Says DELIVERED of what is in the store, as far as the application keeps up.
  func sayDelivered(now: Instant) {
    for delivered in intake.takeDelivered() {
      inbound.markTaken(from: delivered.from, device: delivered.device, order: delivered.order)
      session?.acknowledge(from: delivered.from, device: delivered.device, order: delivered.order, now: now)
    }
  }

  /// What the application got, and what it is done with.
  func write(_ taken: [TakenMessage], with writer: StoreWriter, now: Instant) {
    guard !taken.isEmpty else { return }
    let acknowledged = taken.filter(\.isAcknowledged)
    for message in acknowledged { intake.acknowledged(bytes: message.bytes) }
    writer.take(
      handedOver: taken.filter { !$0.isAcknowledged }.map(\.storeId), acknowledged: acknowledged.map(\.storeId))
    sayDelivered(now: now)
  }

  /// A session began. The store must belong to its user; the device number has to be in it before a message carries it.
  ///
  /// - Returns: false when the connection is over.
  func claimStore(for reply: LoginReply) -> Bool {
    guard let writer else { return true }
    let here = StoreOwner(user: reply.user, server: server.host.lowercased())
    let owner = writtenLogin.owner
    if !owner.user.isEmpty, owner != here {
      end(
        SIMPError(
          .storeOfAnother,
          "the store belongs to \(owner.user) at \(owner.server), and this is \(here.user) at \(here.server): "
            + "use another file"))
      return false
    }
    let login = StoreBatch.Login(owner: here, deviceNumber: reply.deviceNumber)
    if login != writtenLogin {
      unwrittenLogin = login
      writer.logIn(login)
    }
    return true
  }
}
