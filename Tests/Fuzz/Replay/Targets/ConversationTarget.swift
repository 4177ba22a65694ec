@testable import SimpCore

/// Order and duplicates: any orders and floors, against sets that are kept without cleverness. Each message is shown
/// once, in order unless marked late, and none that was taken is lost.
enum ConversationTarget {
  static let target = FuzzTarget(name: "conversation", maximumBytes: 96, seeds: { seeds }, run: run)

  /// What the rules of WIRE.md, section 10, make of the same messages.
  private struct Model {
    private(set) var floor: UInt64
    private(set) var next: UInt64
    /// The lowest order that may still come.
    private(set) var base: UInt64
    // Short programs: a list is quicker than a set.
    private(set) var taken: [UInt64] = []
    private(set) var held: [UInt64] = []
    var untaken: [UInt64] = []
    var shown: [UInt64] = []

    init(start: UInt64) { (floor, next, base) = (start, start, start) }

    mutating func receive(_ order: UInt64, floor newFloor: UInt64) -> InboundConversation.Decision {
      floor = max(floor, newFloor)
      moveBase()
      if floor > next {
        for order in held.filter({ $0 < floor }).sorted() { show(order) }
        next = floor
        showInSequence()
      }
      if order < floor || taken.contains(order) {
        return held.contains(order) || untaken.contains(order) ? .duplicateWaiting : .duplicateDelivered
      }
      if order - base >= WireLimits.orderWindow { return .outsideWindow }
      taken.append(order)
      moveBase()
      if order < next { show(order) } else { held.append(order) }
      showInSequence()
      return .taken
    }

    mutating func passGap() {
      guard let lowest = held.min() else { return }
      next = lowest
      showInSequence()
    }

    private mutating func moveBase() {
      base = max(base, floor)
      while taken.contains(base) { base += 1 }
    }

    private mutating func showInSequence() {
      while held.contains(next) {
        show(next)
        next += 1
      }
    }

    private mutating func show(_ order: UInt64) {
      held.removeAll { $0 == order }
      untaken.append(order)
      shown.append(order)
    }
  }

  private static func run(_ input: [UInt8]) throws {
    var script = InputReader(input)
    let start = 1 + script.number() % (1 << 40 - 1)
    var model = Model(start: start)
    let sender = SenderDevice(user: "alice", device: 3)
    var now = Instant(nanoseconds: 1_000_000_000)
    let conversation = InboundConversation(sender: sender, floor: start, now: now)
    var ready: [IncomingMessage] = []
    var lastInOrder: UInt64 = 0

    func check() throws {
      try require(
        ready.count == model.shown.count && zip(ready, model.shown).allSatisfy { $0.order == $1 },
        "shown \(ready.map(\.order)), by the rules \(model.shown)")
      for message in ready {
        try require(message.isLate == (message.order < lastInOrder), "\(message.order) after \(lastInOrder)")
        lastInOrder = max(lastInOrder, message.order)
      }
      try require(conversation.next == model.next, "next is \(conversation.next), by the rules \(model.next)")
      try require(conversation.heldCount == model.held.count, "\(conversation.heldCount) held")
      try require((conversation.gapSince != nil) == !model.held.isEmpty, "the clock of a gap without a gap")
      try require(conversation.isIdle == (model.held.isEmpty && model.untaken.isEmpty), "idle or not")
      ready.removeAll(keepingCapacity: true)
      model.shown.removeAll(keepingCapacity: true)
    }

    while !script.isAtEnd {
      now = now + .milliseconds(1)
      let kind = script.byte()
      switch kind {
      case 0..<200:
        let order = Self.order(kind, around: model.next, &script)
        let floor =
          switch kind & 9 {
          case 9: max(1, min(order, model.next + script.number() % 64))
          case 1: max(1, order - min(order, script.number() % 64))
          default: min(model.floor, order)
          }
        let message = Self.message(order, floor: floor)
        let expected = model.receive(order, floor: floor)
        let decision = conversation.receive(message, now: now, ready: &ready)
        try require(decision == expected, "order \(order), floor \(floor): \(decision), by the rules \(expected)")
      case 200..<225:
        guard let order = model.untaken.min() else { continue }
        model.untaken.removeAll { $0 == order }
        conversation.markTaken(order)
      case 225..<245:
        model.passGap()
        conversation.passGap(ready: &ready)
      default:
        conversation.shiftGap(by: .milliseconds(Int64(script.byte())))
      }
      try check()
    }
    while !model.held.isEmpty {
      model.passGap()
      conversation.passGap(ready: &ready)
      try check()
    }
  }

  private static func order(_ kind: UInt8, around next: UInt64, _ script: inout InputReader) -> UInt64 {
    switch kind & 6 {
    case 0: next
    case 2: next + script.number() % 512
    case 4: max(1, next - min(next, script.number() % 512))
    default: 1 + (next &+ script.number()) % (1 << 40 - 1)
    }
  }

  private static func message(_ order: UInt64, floor: UInt64) -> IncomingMessage {
    guard var message = template else { preconditionFailure("the template is a valid message") }
    message.messageId = 3 << 40 | order
    message.order = order
    message.floor = floor
    return message
  }

  private static let template: IncomingMessage? = {
    let payload = Packets.message(order: 1).dropFirst(WireLimits.headerBytes)
    let relayed = EncodedMessage(relaying: Array(payload).span, from: "alice", serverTime: 1).bytes
    return try? IncomingMessage(reading: Array(relayed.dropFirst(WireLimits.headerBytes)).span, transport: .udp)
  }()

  private static var seeds: [[UInt8]] {
    [
      [1, 0, 0, 0, 2, 5, 2, 3, 4, 1, 0, 230, 0], [5, 2, 10, 2, 9, 1, 200, 3, 4, 2, 210, 240, 0, 0, 4, 3],
      [1, 0, 2, 0xC0, 255, 230, 4, 0xC0, 200, 4, 0xC0, 201, 200, 0, 0],
      [1, 2, 64, 2, 100, 5, 10, 2, 230, 4, 5, 1, 0, 9],
      [0xD9, 128, 6, 0xD3, 0, 6, 0xD2, 127, 6, 0xD2, 129, 7, 0xE0, 0, 0, 1, 0, 3],
    ]
  }
}
