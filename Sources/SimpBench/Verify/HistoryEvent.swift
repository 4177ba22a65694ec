/// One line of a history: what the outside saw of a run, and when.
///
/// A device is one installation of a user: with a store it lasts over many lives of its program, without one it has a
/// single life, for the next program knows nothing of it. A message is named by the device that sent it, the life of that
/// device's program, the user it is for, and a number that counts from 1 within these three.
struct HistoryEvent: Hashable, Sendable {
  /// Microseconds since the run began, by the monotonic clock that all processes of a machine share.
  var time: UInt64
  var what: What

  enum What: Hashable, Sendable {
    /// First line. `seed` makes the same load and faults again.
    case run(id: UInt32, seed: UInt64)
    /// A device that may appear from here on.
    case device(Device)
    /// A program of a device begins to run; it ended, by itself or killed.
    case life(device: UInt32, life: UInt32)
    case over(device: UInt32, life: UInt32, isKilled: Bool)
    /// About to be handed to the library; and: the library took it. What is not taken may arrive or not.
    case send(MessageName)
    case took(MessageName)
    /// The sender's application saw this state of its receipt.
    case receipt(MessageName, ReceiptState)
    /// The recipient's application was shown a message; written before it is acknowledged.
    case delivery(Delivery)
    /// About to be acknowledged by hand; and: that call returned.
    case acknowledging(MessageName, by: UInt32)
    case acknowledged(MessageName, by: UInt32)
    case fault(kind: String, isBegin: Bool, detail: String)
    /// Last line of a run.
    case finish(Finish)
  }

  struct Device: Hashable, Sendable {
    var number: UInt32
    var user: UInt32
    /// The user's name, as the server has to show it to recipients.
    var name: String
    var hasStore = false
    var acknowledgesByHand = false
  }

  struct Delivery: Hashable, Sendable {
    /// Who was shown it.
    var device: UInt32
    var life: UInt32
    /// What the payload says; nil when it is not as any message was sent.
    var message: MessageName?
    /// The sender's name, as the server says.
    var from: String
    var isLate = false
    var isRedelivered = false
  }

  enum Finish: String, Hashable, Sendable {
    /// Everything was answered, and all was quiet.
    case drained
    /// The time for that was over.
    case timeout
    /// Somebody ended it: what is open is not lost.
    case interrupted
  }
}

/// Which message.
struct MessageName: Hashable, Sendable {
  /// The sending device, at most 24 bits, and the life of its program, at most 16.
  var device: UInt32
  var life: UInt32
  /// The recipient's user number, at most 24 bits.
  var to: UInt32
  /// From 1, at most 28 bits.
  var number: UInt32

  /// Ascends as the device sent its messages in this conversation.
  var order: UInt64 { UInt64(life) << 32 | UInt64(number) }

  var words: String { "message \(number) of device \(device) (life \(life)) to user \(to)" }
}

/// The states of a receipt, as histories write them.
enum ReceiptState: String, Hashable, Sendable, CaseIterable {
  case accepted, later, stored, delivered, read, rejected, expired

  var bit: UInt8 { 1 << UInt8(Self.allCases.firstIndex(of: self)!) }

  /// Whether this one may be seen after `earlier`.
  func mayFollow(_ earlier: ReceiptState) -> Bool {
    switch earlier {
    case .accepted, .later: true
    case .stored: [.stored, .delivered, .read, .expired].contains(self)
    case .delivered: self == .delivered || self == .read
    case .read, .rejected, .expired: self == earlier
    }
  }
}
