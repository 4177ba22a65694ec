/// All conversations that come to this device: each message once, in order, and none lost. Outlives connections.
public final class InboundMessages {
  /// Messages for the application, in the order it sees them, since the owner last looked.
  private var ready: [IncomingMessage] = []
  // BOUND: `devicesPerUser` maps a user, the longest unused idle one goes first; `maximumMaps` in all.
  private var conversations: [SenderDevice: InboundConversation] = [:]
  private var devices: [String: [UInt32]] = [:]
  /// Those that wait for a gap to close.
  private var gapped: Set<SenderDevice> = []
  private let gapTimeout: Interval
  private let roomMessages: Int
  private var outstanding = 0
  private var standsStillSince: Instant?

  public private(set) var duplicates: UInt64 = 0
  public private(set) var late: UInt64 = 0
  /// Maps that went because a user had too many devices.
  public private(set) var evictedMaps: UInt64 = 0
  static let devicesPerUser = 256
  static let maximumMaps = 65536
  /// Later than this no timer of a process that runs goes off, and so long gaps are waited for after such a sleep.
  private static let oversleeping = Interval.milliseconds(500)
  private static let graceAfterSleep = Interval.seconds(1)

  /// - Parameters:
  ///   - gapTimeout: how long a missing message is waited for while connected.
  ///   - roomMessages: what the login announces: more than twice as many that the application has not taken are
  ///     refused, so that a server that ignores the room costs no memory.
  public init(gapTimeout: Interval = WireTimes.gap, roomMessages: Int) {
    self.gapTimeout = gapTimeout
    self.roomMessages = roomMessages
  }

  /// What a store knows of a sender's device, before the first session.
  public func restore(from user: String, device: UInt32, map: OrderMap, now: Instant) {
    let sender = SenderDevice(user: user, device: device)
    guard conversations[sender] == nil else { return }
    add(InboundConversation(sender: sender, map: map, now: now))
  }

  enum Decision: Equatable { case taken, receiptAgain, waiting, refused }

  func receive(_ message: IncomingMessage, now: Instant) -> Decision {
    guard outstanding < 2 * roomMessages + 1024 else { return .refused }
    let sender = SenderDevice(user: message.from, device: message.device)
    let conversation = conversations[sender] ?? begin(sender, floor: message.floor, now: now)
    let decision = conversation.receive(message, now: now, ready: &ready)
    noteGap(of: conversation)
    switch decision {
    case .taken:
      outstanding += 1
      return .taken
    case .duplicateDelivered:
      duplicates += 1
      return .receiptAgain
    case .duplicateWaiting:
      duplicates += 1
      return .waiting
    case .outsideWindow:
      return .refused
    }
  }

  /// What the application may see now.
  func takeReady() -> [IncomingMessage] {
    late += UInt64(ready.count { $0.isLate })
    defer { ready.removeAll(keepingCapacity: true) }
    return ready
  }

  /// The application took a message.
  public func markTaken(from user: String, device: UInt32, order: UInt64) {
    outstanding -= 1
    conversations[SenderDevice(user: user, device: device)]?.markTaken(order)
  }

  // MARK: - Gaps

  /// When the longest waiting gap is passed over, nil while none waits or the clock stands still.
  var deadline: Instant? {
    guard standsStillSince == nil else { return nil }
    return gapped.compactMap { conversations[$0]?.gapSince }.min().map { $0 + gapTimeout }
  }

  /// Passes over the gaps that were waited for long enough.
  func expire(now: Instant) {
    guard let deadline, deadline <= now else { return }
    // The process did not run when that time was over. What closes the gaps may lie in its sockets, to be read next.
    if now - deadline > Self.oversleeping { return giveTime(to: now + Self.graceAfterSleep) }
    for sender in gapped {
      guard let conversation = conversations[sender], let since = conversation.gapSince, since + gapTimeout <= now
      else { continue }
      conversation.passGap(ready: &ready)
      noteGap(of: conversation)
    }
  }

  /// No gap is passed over before `end`.
  private func giveTime(to end: Instant) {
    for sender in gapped {
      guard let conversation = conversations[sender], let since = conversation.gapSince else { continue }
      conversation.shiftGap(by: max(.zero, end - (since + gapTimeout)))
    }
  }

  /// The connection is gone: no gap can close, so its clock stands still.
  public func standStill(now: Instant) { standsStillSince = standsStillSince ?? now }

  /// The connection is back.
  public func goOn(now: Instant) {
    guard let since = standsStillSince else { return }
    standsStillSince = nil
    for sender in gapped { conversations[sender]?.shiftGap(by: now - since) }
  }

  private func noteGap(of conversation: InboundConversation) {
    if conversation.gapSince == nil {
      if !gapped.isEmpty { gapped.remove(conversation.sender) }
    } else {
      gapped.insert(conversation.sender)
    }
  }

  // MARK: - Maps

  private func begin(_ sender: SenderDevice, floor: UInt64, now: Instant) -> InboundConversation {
    let conversation = InboundConversation(sender: sender, floor: floor, now: now)
    add(conversation)
    return conversation
  }

  private func add(_ conversation: InboundConversation) {
    let sender = conversation.sender
    if devices[sender.user, default: []].count >= Self.devicesPerUser {
      evict(from: devices[sender.user, default: []].map { SenderDevice(user: sender.user, device: $0) })
    } else if conversations.count >= Self.maximumMaps {
      evict(from: Array(conversations.keys))
    }
    conversations[sender] = conversation
    devices[sender.user, default: []].append(sender.device)
  }

  private func evict(from senders: [SenderDevice]) {
    let idle = senders.compactMap { conversations[$0] }.filter(\.isIdle)
    guard let oldest = idle.min(by: { $0.lastUsed < $1.lastUsed })?.sender else { return }
    conversations[oldest] = nil
    devices[oldest.user]?.removeAll { $0 == oldest.device }
    if devices[oldest.user]?.isEmpty == true { devices[oldest.user] = nil }
    evictedMaps += 1
  }
}
