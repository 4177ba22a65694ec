/// What the messages themselves say about a run.
struct Verdict: Hashable, Sendable {
  /// Messages handed over for sending.
  var sent: UInt64 = 0
  /// Of these, how many arrived, each counted once.
  var delivered: UInt64 = 0
  /// Arrivals of something that had arrived before.
  var duplicated: UInt64 = 0
  /// First arrivals after a later message of the same conversation.
  var outOfOrder: UInt64 = 0
  /// Arrivals that are not as they were sent.
  var corrupt: UInt64 = 0
  /// Arrivals under a wrong sender, in a wrong place, or that were never sent.
  var misdirected: UInt64 = 0

  var lost: UInt64 { sent - delivered }
  var isGood: Bool { lost == 0 && duplicated == 0 && outOfOrder == 0 && corrupt == 0 && misdirected == 0 }

  mutating func add(_ other: Verdict) {
    sent += other.sent
    delivered += other.delivered
    duplicated += other.duplicated
    outOfOrder += other.outOfOrder
    corrupt += other.corrupt
    misdirected += other.misdirected
  }

  /// `good`, or what is wrong: `2 lost, 1 doubled`.
  var words: String {
    let faults = [
      (lost, "lost"), (duplicated, "doubled"), (outOfOrder, "out of order"), (corrupt, "corrupt"),
      (misdirected, "misdirected"),
    ]
    let named = faults.filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
    return named.isEmpty ? "good: none lost, doubled or out of order" : named.joined(separator: ", ")
  }
}

/// Checks one conversation: what one sender sent one recipient in one run, against what the recipient got.
struct ConversationCheck: Sendable {
  /// What a message has to say about itself to belong here.
  let run: UInt32
  let sender: UInt32
  let conversation: UInt32
  /// The name the server must show as the sender's.
  let senderName: String

  private var sent: UInt64 = 0
  /// A bit for each number that arrived, from 1.
  private var arrived: [UInt64] = []
  private var highest: UInt64 = 0
  private var verdict = Verdict()

  init(run: UInt32, sender: UInt32, conversation: UInt32, senderName: String) {
    self.run = run
    self.sender = sender
    self.conversation = conversation
    self.senderName = senderName
  }

  /// A message is about to be handed over.
  ///
  /// - Returns: its number.
  mutating func noteSent() -> UInt64 {
    sent += 1
    return sent
  }

  /// The message with the highest number was refused after all: it is not sent.
  mutating func takeBack() { sent -= 1 }

  /// A message arrived.
  ///
  /// - Returns: what it says, when it belongs here and came for the first time.
  mutating func noteArrived(_ text: String?, from name: String) -> Payload? {
    guard let text, let payload = Payload(reading: text) else {
      verdict.corrupt += 1
      return nil
    }
    guard payload.run == run, payload.sender == sender, payload.conversation == conversation, name == senderName,
      (1...sent).contains(payload.number)
    else {
      verdict.misdirected += 1
      return nil
    }
    let (word, bit) = (Int((payload.number - 1) / 64), UInt64(1) << ((payload.number - 1) % 64))
    if word >= arrived.count { arrived.append(contentsOf: repeatElement(0, count: word + 1 - arrived.count)) }
    guard arrived[word] & bit == 0 else {
      verdict.duplicated += 1
      return nil
    }
    arrived[word] |= bit
    verdict.delivered += 1
    if payload.number < highest { verdict.outOfOrder += 1 }
    highest = max(highest, payload.number)
    return payload
  }

  /// The verdict if nothing more arrived.
  var result: Verdict {
    var result = verdict
    result.sent = sent
    return result
  }

  /// Messages that have not arrived yet.
  var underWay: UInt64 { sent - verdict.delivered }
}
