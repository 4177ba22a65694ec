/// One device of one user: messages keep their order within what it sends to this device.
struct SenderDevice: Hashable {
  var user: String
  var device: UInt32
}

/// Order and duplicate detection for the messages of one sender device.
///
/// `map` says what came. `next` is the order the application sees next; what lies above it is held until the gap
/// closes, floor passes it, or the wait for it is over.
final class InboundConversation {
  let sender: SenderDevice
  private(set) var map: OrderMap
  private(set) var next: UInt64
  // BOUND: held and untaken messages together stay under the room this device announced (InboundMessages).
  private var held: [UInt64: Held] = [:]
  private var untaken: Set<UInt64> = []
  /// Since when the message `next` is known to be missing: the one behind the gap came then.
  private(set) var gapSince: Instant?
  var lastUsed: Instant

  private struct Held {
    var message: IncomingMessage
    var arrived: Instant
  }

  enum Decision: Equatable {
    /// New: shown now, or held until its turn.
    case taken
    /// The application had it: it is receipted again.
    case duplicateDelivered
    /// It is here and the application did not take it yet: its receipt follows.
    case duplicateWaiting
    /// Further above base than the window.
    case outsideWindow
  }

  /// A conversation met for the first time starts at the floor: what lies below is finished.
  init(sender: SenderDevice, floor: UInt64, now: Instant) {
    self.sender = sender
    map = OrderMap(base: floor)
    next = floor
    lastUsed = now
  }

  /// One that a store knew: what it has seen was shown, and what is missing below that was passed over.
  init(sender: SenderDevice, map: OrderMap, now: Instant) {
    self.sender = sender
    self.map = map
    next = map.end
    lastUsed = now
  }

  var heldCount: Int { held.count }
  var isIdle: Bool { held.isEmpty && untaken.isEmpty }

  /// Takes a message in.
  ///
  /// - Parameter ready: gets what the application may see now, in order.
  func receive(_ message: IncomingMessage, now: Instant, ready: inout [IncomingMessage]) -> Decision {
    lastUsed = now
    passFloor(message.floor, ready: &ready)
    if map.contains(message.order) {
      let waits = held[message.order] != nil || untaken.contains(message.order)
      updateGap()
      return waits ? .duplicateWaiting : .duplicateDelivered
    }
    guard message.order - map.base < WireLimits.orderWindow else {
      // Its floor may have closed the gap.
      updateGap()
      return .outsideWindow
    }
    map.insert(message.order)
    if message.order < next {
      var late = message
      late.isLate = true
      show(late, ready: &ready)
    } else {
      held[message.order] = Held(message: message, arrived: now)
      showInSequence(ready: &ready)
    }
    updateGap()
    return .taken
  }

  /// The application took a message.
  func markTaken(_ order: UInt64) { untaken.remove(order) }

  /// Gives up waiting for what is missing before the lowest held message.
  func passGap(ready: inout [IncomingMessage]) {
    guard !held.isEmpty, let lowest = map.first(from: next) else { return }
    next = lowest
    showInSequence(ready: &ready)
    updateGap()
  }

  /// The clock of the gap stands still: moves its start.
  func shiftGap(by interval: Interval) {
    held = held.mapValues { Held(message: $0.message, arrived: $0.arrived + interval) }
    updateGap()
  }

  private func passFloor(_ floor: UInt64, ready: inout [IncomingMessage]) {
    map.advance(to: floor)
    guard floor > next else { return }
    for order in held.keys.filter({ $0 < floor }).sorted() {
      if let message = held.removeValue(forKey: order)?.message { show(message, ready: &ready) }
    }
    next = floor
    showInSequence(ready: &ready)
  }

  private func showInSequence(ready: inout [IncomingMessage]) {
    while let message = held.removeValue(forKey: next)?.message {
      show(message, ready: &ready)
      next += 1
    }
  }

  private func show(_ message: IncomingMessage, ready: inout [IncomingMessage]) {
    untaken.insert(message.order)
    var message = message
    // All below is finished, or was shown before: a store that keeps what is shown may forget it as this map does.
    message.floor = max(message.floor, min(map.base, message.order))
    ready.append(message)
  }

  /// Each gap has a clock of its own: one that closed leaves nothing to the next.
  private func updateGap() {
    gapSince = held.isEmpty ? nil : map.first(from: next).flatMap { held[$0]?.arrived }
  }
}
