internal import SimpCore

/// A message in an inbox.
public struct InboxEntry: Hashable, Sendable {
  /// Names an entry of one inbox, and says where it stands: later ones are higher.
  public struct ID: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// By the clock of Redis, in milliseconds of Unix time, but never going back.
    public let milliseconds: UInt64
    /// Tells entries of one millisecond apart.
    public let sequence: UInt64

    public init(milliseconds: UInt64, sequence: UInt64) {
      self.milliseconds = milliseconds
      self.sequence = sequence
    }

    /// As Redis writes it.
    public var description: String { "\(milliseconds)-\(sequence)" }

    public static func < (left: Self, right: Self) -> Bool {
      (left.milliseconds, left.sequence) < (right.milliseconds, right.sequence)
    }
  }

  public let id: ID
  /// The sender's user name and device number, and the message's place in their conversation.
  public let from: String
  public let device: UInt32
  public let order: UInt64
  /// When its time is over, in milliseconds of Unix time.
  public let expires: UInt64
  public let payload: [UInt8]
}

extension InboxEntry.ID {
  /// Reads `MILLISECONDS-SEQUENCE`, nil for anything else.
  init?(_ text: String) {
    let parts = text.split(separator: "-", omittingEmptySubsequences: false)
    guard parts.count == 2, let milliseconds = UInt64(digits: parts[0]), let sequence = UInt64(digits: parts[1])
    else { return nil }
    self.init(milliseconds: milliseconds, sequence: sequence)
  }
}

extension InboxEntry {
  /// Reads what XRANGE answers for one entry, nil for what no script of ours has written.
  init?(_ reply: RedisReply) {
    guard let parts = reply.elements, parts.count == 2, let id = parts[0].text.flatMap({ ID($0) }),
      let words = parts[1].elements, words.count == 10,
      zip(stride(from: 0, to: 10, by: 2), InboxScripts.entryFields).allSatisfy({ words[$0].text == $1 }),
      let from = words[1].text, Text.isUserName(from),
      let device = words[3].text.flatMap({ UInt32(digits: $0) }), device < 1 << 24,
      let order = words[5].text.flatMap({ UInt64(digits: $0) }), order < 1 << 40,
      let expires = words[7].text.flatMap({ UInt64(digits: $0) }), case .string(let payload) = words[9]
    else { return nil }
    self.init(id: id, from: from, device: device, order: order, expires: expires, payload: payload)
  }
}

extension FixedWidthInteger {
  /// Reads digits only: no sign, nothing empty.
  init?(digits: some StringProtocol) {
    guard digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    self.init(digits)
  }
}
