/// Checks what all users of a mesh send one another: a conversation for each pair, made at its first message.
struct MeshCheck {
  /// What one user sent another, and what came of it.
  private struct Conversation {
    /// Messages are numbered 1, 2, 3 …
    var sent: UInt32 = 0
    /// All up to this one arrived.
    var through: UInt32 = 0
    /// Those that arrived beyond, sorted. Empty unless something is late.
    var ahead: [UInt32] = []

    /// - Returns: false when the number arrived before.
    mutating func insert(_ number: UInt32) -> Bool {
      if number == through + 1, ahead.isEmpty {
        through = number
        return true
      }
      guard number > through, !ahead.contains(number) else { return false }
      ahead.insert(number, at: ahead.firstIndex { $0 > number } ?? ahead.count)
      let row = zip(ahead, (through + 1)...).prefix { $0 == $1 }.count
      ahead.removeFirst(row)
      through += UInt32(row)
      return true
    }

    /// The highest number that arrived.
    var highest: UInt32 { ahead.last ?? through }
  }

  private let run: UInt32
  private let names: [String]
  // BOUND: an entry for each pair of users that had a message.
  private var conversations: [UInt64: Conversation] = [:]
  private var verdict = Verdict()

  /// - Parameters:
  ///   - run: what every message has to say about itself.
  ///   - names: of the users, by their numbers.
  init(run: UInt32, names: [String]) {
    self.run = run
    self.names = names
  }

  /// A message is about to be handed over.
  ///
  /// - Returns: its number in the conversation.
  mutating func noteSent(from sender: Int, to recipient: Int) -> UInt64 {
    verdict.sent += 1
    conversations[Self.key(sender, recipient), default: Conversation()].sent += 1
    return UInt64(conversations[Self.key(sender, recipient)]?.sent ?? 0)
  }

  /// A message arrived.
  ///
  /// - Parameter name: who sent it, as the server says.
  /// - Returns: what it says, when it belongs here and came for the first time.
  mutating func noteArrived(_ text: String, from name: String, at recipient: Int) -> Payload? {
    guard let payload = Payload(reading: text) else {
      verdict.corrupt += 1
      return nil
    }
    let sender = Int(payload.sender)
    guard payload.run == run, payload.conversation == recipient, sender < names.count, names[sender] == name,
      let number = UInt32(exactly: payload.number), number > 0,
      let index = conversations.index(forKey: Self.key(sender, recipient)),
      number <= conversations.values[index].sent
    else {
      verdict.misdirected += 1
      return nil
    }
    let highest = conversations.values[index].highest
    guard conversations.values[index].insert(number) else {
      verdict.duplicated += 1
      return nil
    }
    verdict.delivered += 1
    if number < highest { verdict.outOfOrder += 1 }
    return payload
  }

  private static func key(_ sender: Int, _ recipient: Int) -> UInt64 { UInt64(sender) << 32 | UInt64(recipient) }

  /// The verdict if nothing more arrived.
  var result: Verdict { verdict }
  /// Messages that have not arrived yet.
  var underWay: UInt64 { verdict.lost }
}
