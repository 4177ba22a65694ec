internal import SimpCore
internal import SimpStore
internal import Synchronization

/// The way a packet went, or came.
public enum SIMPTransport: String, Hashable, Sendable { case udp, tcp }

/// A message that came for this user.
public struct SIMPMessage: Sendable {
  /// With `from` it names the message for ever: the sender's device number (24 bits) and a counter (40 bits).
  public let id: UInt64
  /// Who sent it, as the server saw it logged in.
  public let from: String
  public let content: SIMPContent
  /// When it was written by the sender's clock, Unix milliseconds.
  public let time: UInt64
  /// When the server took it by the server's clock, Unix milliseconds.
  public let serverTime: UInt64
  /// Its place among the messages of the same sender and device to this user: 1, 2, 3 and so on.
  public let order: UInt64
  /// The sender's device number.
  public var device: UInt32 { UInt32(id >> 40) }
  /// The way it came first.
  public let transport: SIMPTransport
  /// Later messages of its sender were shown before: it came after the wait for it was given up.
  public let isLate: Bool
  /// It was handed over before, and not acknowledged when that process ended. Only with a store.
  public let isRedelivered: Bool

  let taken: TakenMessage
  let acknowledgement: Acknowledgement?

  /// The text of a text message, also an empty one; nil for other kinds.
  public var text: String? { content.kind == .text ? content.text : nil }
  public var kind: SIMPContent.Kind { content.kind }

  /// The application is done with the message: the sender is told DELIVERED, or, with a store, where that was told
  /// before, the store lets go of the message. Only with `Configuration.acknowledgement == .manual`; otherwise that was
  /// done when the message came out of `messages`, and nothing happens. May be called from anywhere; more than once does
  /// nothing.
  public func acknowledge() { acknowledgement?.give() }

  init(_ received: ReceivedMessage, taken: TakenMessage, acknowledgement: Acknowledgement?) {
    let message = received.message
    isRedelivered = received.isRedelivered
    self.taken = taken
    id = message.messageId
    from = message.from
    content = SIMPContent(message.content)
    time = message.content.time
    serverTime = message.serverTime
    order = message.order
    transport = SIMPTransport(message.transport)
    isLate = message.isLate
    self.acknowledgement = acknowledgement
  }
}

extension SIMPTransport {
  init(_ transport: Transport) {
    switch transport {
    case .udp: self = .udp
    case .tcp: self = .tcp
    }
  }
}

/// What a receipt to a sender names.
struct TakenMessage: Sendable {
  var from: String
  var device: UInt32
  var order: UInt64
  /// With a store: its number there, and its bytes.
  var storeId: UInt64 = 0
  var bytes = 0
  /// false: it was only handed over.
  var isAcknowledged = true
}

extension TakenMessage {
  init(_ received: ReceivedMessage) {
    let message = received.message
    self.init(
      from: message.from, device: message.device, order: message.order, storeId: received.id,
      bytes: message.content.size)
  }
}

/// The right to acknowledge one message, once.
final class Acknowledgement: Sendable {
  private let isGiven = Atomic(false)
  private let taken: TakenMessage
  private let driver: Driver

  init(_ taken: TakenMessage, driver: Driver) {
    self.taken = taken
    self.driver = driver
  }

  func give() {
    guard !isGiven.exchange(true, ordering: .relaxed) else { return }
    driver.acknowledge(taken)
  }
}
