/// What a history says of one message, small: there are millions.
struct MessageRecord: Sendable {
  struct Flags: OptionSet, Sendable {
    let rawValue: UInt8
    /// About to be handed over; taken; shown to an application.
    static let offered = Flags(rawValue: 1)
    static let taken = Flags(rawValue: 2)
    static let shown = Flags(rawValue: 4)
    /// The application that was shown it last began to acknowledge it; did so.
    static let acknowledging = Flags(rawValue: 8)
    static let acknowledged = Flags(rawValue: 16)
  }

  /// Microseconds.
  private(set) var sentAt: UInt64 = 0
  /// Who was shown it last.
  private(set) var shownDevice: UInt32 = 0
  private(set) var shownLife: UInt32 = 0
  /// First; milliseconds.
  private(set) var shownAt: UInt32 = 0
  /// When DELIVERED or READ was seen first; milliseconds, 0 when it was not.
  private var told: UInt32 = 0
  var flags: Flags = []
  /// Bits of the states that were seen.
  private(set) var states: UInt8 = 0
  private(set) var last: ReceiptState?

  var toldAt: UInt64 { UInt64(told) }

  /// From sent to shown, microseconds.
  var delay: UInt64 { UInt64(shownAt) * 1000 - min(UInt64(shownAt) * 1000, sentAt) }

  /// Taken, and neither shown nor given up.
  var isOpen: Bool {
    flags.contains(.taken) && !flags.contains(.shown)
      && states & (ReceiptState.rejected.bit | ReceiptState.expired.bit) == 0
  }

  mutating func sent(at time: UInt64) {
    flags.insert(.offered)
    sentAt = time
  }

  mutating func taken(at time: UInt64) {
    if !flags.contains(.offered) { sent(at: time) }
    flags.insert(.taken)
  }

  /// - Returns: the state that was seen before.
  mutating func noteReceipt(_ state: ReceiptState, at time: UInt64) -> ReceiptState? {
    defer { last = state }
    states |= state.bit
    if state == .delivered || state == .read, told == 0 { told = max(1, UInt32(clamping: time / 1000)) }
    return last
  }

  mutating func shown(_ delivery: HistoryEvent.Delivery, at time: UInt64) {
    if !flags.contains(.shown) { shownAt = UInt32(clamping: time / 1000) }
    (shownDevice, shownLife) = (delivery.device, delivery.life)
    flags.insert(.shown)
    flags.subtract([.acknowledging, .acknowledged])
  }

  mutating func acknowledging(by device: UInt32) {
    if shownDevice == device { flags.insert(.acknowledging) }
  }

  mutating func acknowledged(by device: UInt32) {
    if shownDevice == device { flags.insert(.acknowledged) }
  }
}
