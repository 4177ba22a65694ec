@testable import SimpCore

/// Seals by a tag that names direction, phase and packet number, and counts what was tried.
final class NumberedProtection: DatagramProtection {
  private let isServer: Bool
  private var sealing: UInt8 = 0
  private var opening: UInt8 = 0
  private(set) var former: UInt8?
  private(set) var tried = 0
  private(set) var sealed: [(phase: UInt8, number: UInt64)] = []
  private let onRelease: () -> Void

  init(isServer: Bool, onRelease: @escaping () -> Void = {}) {
    self.isServer = isServer
    self.onRelease = onRelease
  }

  deinit { onRelease() }

  private func tag(_ phase: UInt8, _ number: UInt64, fromServer: Bool) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) } + [phase, fromServer ? 1 : 0, 1, 2, 3, 4, 5, 6]
  }

  func seal(_ datagram: inout [UInt8], packetNumber: UInt64) {
    sealed.append((sealing, packetNumber))
    datagram += tag(sealing, packetNumber, fromServer: isServer)
  }

  func open(_ datagram: inout MutableSpan<UInt8>, packetNumber: UInt64, with key: OpeningKey) -> Bool {
    tried += 1
    let phase: UInt8? =
      switch key {
      case .former: former
      case .present: opening
      case .next: opening + 1
      }
    guard let phase, datagram.count >= 32 else { return false }
    let expected = tag(phase, packetNumber, fromServer: !isServer)
    return (0..<16).allSatisfy { datagram[datagram.count - 16 + $0] == expected[$0] }
  }

  func changeSealingKey() { sealing += 1 }

  func changeOpeningKey() {
    former = opening
    opening += 1
  }

  func forgetFormerKey() { former = nil }
}

/// Both ends of a channel with nothing in between: what leaves is kept until a test hands it over.
final class ChannelRig {
  static let start = Instant(nanoseconds: 1_000_000_000)
  static let address = PeerAddress.v4(192, 0, 2, 1, port: 7468)

  struct End {
    let channel = Channel()
    let protection: NumberedProtection
    var out: [[UInt8]] = []

    init(isServer: Bool, limits: KeyLimits) {
      protection = NumberedProtection(isServer: isServer)
      channel.phases.limits = limits
      channel.redundancy.mode = .off
      channel.startProbing(protection, connectionId: 7, seed: 5, now: ChannelRig.start)
      channel.pathProven(ChannelRig.address, now: ChannelRig.start)
    }
  }

  var client: End
  var server: End
  private(set) var now = start
  /// How often an end was told that its path is down.
  private(set) var downs = 0
  private var nextOrder: UInt64 = 1

  init(limits: KeyLimits) {
    client = End(isServer: false, limits: limits)
    server = End(isServer: true, limits: limits)
  }

  func pass(_ time: Interval) { now = now + time }

  /// Sends `count` datagrams with a message each.
  func send(_ count: Int, from end: ReferenceWritableKeyPath<ChannelRig, End>) {
    for _ in 0..<count {
      let key = MessageKey(conversation: 0, order: nextOrder)
      let message = EncodedMessage(
        MessageContent(text: "m"), messageId: 3 << 40 | nextOrder, order: nextOrder, toUser: "bob")
      nextOrder += 1
      self[keyPath: end].channel.insert(key, message, byTCP: false)
      flush(end)
    }
  }

  func flush(_ end: ReferenceWritableKeyPath<ChannelRig, End>) {
    var out: [[UInt8]] = []
    let collect: (Span<UInt8>, PeerAddress) -> Void = { datagram, _ in
      out.append((0..<datagram.count).map { datagram[$0] })
    }
    let channel = self[keyPath: end].channel
    if channel.expire(now: now, floor: { $0.order }, send: collect) { downs += 1 }
    channel.flush(now: now, streamRoom: 1 << 20, floor: { $0.order }, send: collect)
    _ = channel.takeStream()
    self[keyPath: end].out += out
  }

  /// Takes what left since the last time.
  func take(_ end: ReferenceWritableKeyPath<ChannelRig, End>) -> [[UInt8]] {
    defer { self[keyPath: end].out = [] }
    return self[keyPath: end].out
  }

  /// - Returns: whether it was taken in.
  @discardableResult
  func deliver(_ datagram: [UInt8], to end: ReferenceWritableKeyPath<ChannelRig, End>, isProven: Bool = true) -> Bool {
    var copy = datagram
    var span = copy.mutableSpan
    let channel = self[keyPath: end].channel
    let now = now
    return channel.receive(datagram: &span, isProven: isProven, now: now) {
      (header, payload) throws(WireError) -> Bool in
      if header.command == .receipt, let datagrams = try Receipt(reading: payload).datagrams {
        try channel.receive(datagrams, byUDP: true, now: now)
      }
      return true
    } != nil
  }

  /// Lets both talk until all is receipted.
  func exchange(_ rounds: Int = 4) {
    for _ in 0..<rounds {
      pass(.milliseconds(101))
      flush(\.client)
      for datagram in take(\.client) { deliver(datagram, to: \.server) }
      flush(\.server)
      for datagram in take(\.server) { deliver(datagram, to: \.client) }
    }
  }
}
