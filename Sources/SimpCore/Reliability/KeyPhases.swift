/// When keys change and how far each may be used (wire document, section 5; RFC 9001, section 6).
public struct KeyLimits: Hashable, Sendable {
  /// A direction changes its key after this many datagrams, once the peer has receipted one of the phase. From 1.
  public var phaseDatagrams: UInt64
  /// Never are more datagrams sealed under one key: then the session goes on without UDP.
  public var sealedDatagrams: UInt64
  /// Datagrams of a session with a bad tag after which it goes on without UDP.
  public var forgedDatagrams: UInt64

  public init(
    phaseDatagrams: UInt64 = WireLimits.keyPhaseDatagrams, sealedDatagrams: UInt64 = WireLimits.maximumSealedDatagrams,
    forgedDatagrams: UInt64 = WireLimits.maximumForgedDatagrams
  ) {
    self.phaseDatagrams = phaseDatagrams
    self.sealedDatagrams = sealedDatagrams
    self.forgedDatagrams = forgedDatagrams
  }
}

/// Why a session goes on without UDP although it had it.
public enum UDPEnd: String, Hashable, Sendable {
  /// The peer receipted nothing of the present phase, and the key must not be used any further.
  case keyUsedUp = "the datagram key is used up, and the peer did not confirm it"
  /// So many bad tags that somebody may be guessing one.
  case tooManyForged = "too many datagrams with a bad tag"
}

/// The peer changed its key against the rules.
enum KeyPhaseError: Error, Hashable {
  /// Before a datagram of its present phase was receipted.
  case changedTooSoon
}

/// The key phase of both directions of one channel. One bit on the wire tells phases apart, together with the packet
/// number: numbers only grow from phase to phase, so that a datagram fits one key at most.
struct KeyPhases {
  var limits: KeyLimits

  // What we seal.
  private(set) var sealingPhase: UInt64 = 0
  private var firstSealed: UInt64 = 0
  private(set) var sealedCount: UInt64 = 0
  private var isConfirmed = false

  // What we open.
  private(set) var openingPhase: UInt64 = 0
  /// Lowest and highest number that opened with the present key.
  private var present: ClosedRange<UInt64>?
  private var highestOfFormer: UInt64?
  /// A receipt left that speaks of the present phase.
  private var isReceipted = false
  /// When the former key is to be forgotten; nil while there is none.
  private(set) var formerUntil: Instant?

  init(limits: KeyLimits = KeyLimits()) { self.limits = limits }

  // MARK: - Sealing

  var isOddSealing: Bool { sealingPhase & 1 == 1 }
  /// The key must not seal any more, and no other may take its place.
  var isUsedUp: Bool { sealedCount >= limits.sealedDatagrams && !isChangeDue }

  /// The next datagram belongs into a new phase.
  var isChangeDue: Bool { sealedCount >= limits.phaseDatagrams && isConfirmed }

  /// - Parameter number: of the first datagram of the new phase.
  mutating func sealingChanged(from number: UInt64) {
    sealingPhase += 1
    firstSealed = number
    sealedCount = 0
    isConfirmed = false
  }

  mutating func sealed() { sealedCount += 1 }

  /// The peer receipted datagrams up to `number`, all of which were sent.
  mutating func receipted(upTo number: UInt64) {
    if sealedCount > 0, number >= firstSealed { isConfirmed = true }
  }

  // MARK: - Opening

  /// The one key that may have sealed this datagram, nil when none can: it is late, or its phase and its number do not
  /// go together.
  func key(for header: DatagramHeader) -> OpeningKey? {
    let number = header.packetNumber
    if header.isOddPhase == (openingPhase & 1 == 1) {
      // What is lower than something of the former phase belongs there, or further back.
      if let highestOfFormer, number <= highestOfFormer { return nil }
      return .present
    }
    guard let present else { return .next }
    if number > present.upperBound { return .next }
    return number < present.lowerBound && formerUntil != nil ? .former : nil
  }

  /// A datagram opened with this key.
  ///
  /// - Returns: whether the phase changed by it: then the key is to be changed too.
  /// - Throws: when the peer may not have changed yet. The datagram is to be dropped.
  mutating func opened(
    _ number: UInt64, with key: OpeningKey, now: Instant, probeTimeout: @autoclosure () -> Interval
  ) throws(KeyPhaseError) -> Bool {
    switch key {
    case .former:
      highestOfFormer = max(highestOfFormer ?? number, number)
    case .present:
      present = min(present?.lowerBound ?? number, number)...max(present?.upperBound ?? number, number)
    case .next:
      guard isReceipted, let before = present else { throw .changedTooSoon }
      openingPhase += 1
      highestOfFormer = before.upperBound
      present = number...number
      isReceipted = false
      formerUntil = now + probeTimeout() * 3
      return true
    }
    return false
  }

  /// A receipt leaves that speaks of all that came.
  mutating func receiptLeft() { if present != nil { isReceipted = true } }

  /// - Returns: whether the former key is to be forgotten now.
  mutating func formerExpires(now: Instant) -> Bool {
    guard let formerUntil, formerUntil <= now else { return false }
    self.formerUntil = nil
    return true
  }
}
