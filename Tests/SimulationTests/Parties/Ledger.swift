@testable import SimpCore

/// What was said and what was heard, told from the bodies alone: sender, conversation, number and checksum stand in
/// each, so nothing here trusts the numbers of the code under test.
final class Ledger {
  /// Stands in each body and nowhere else.
  static let marker = "body#"

  struct Name: Hashable {
    var from: String
    var to: String
    var number: Int
  }

  struct Sent {
    var at: Instant
    var acceptedAt: Instant?
    var finishedAt: Instant?
    var isStored = false
    /// Its sender was told DELIVERED behind STORED.
    var isFollowed = false
    var firstTaken: Instant?
    var takenBy: [String: Int] = [:]
  }

  private(set) var messages: [Name: Sent] = [:]
  private(set) var failures: [String] = []
  private(set) var late = 0
  private(set) var shownAgainAfterRestart = 0
  private(set) var laterEvents = 0
  private(set) var firstByUDP = 0
  private(set) var taken = 0
  private(set) var unfinished = 0
  private var newestShown: [String: Int] = [:]
  private var instanceBegan: [String: Instant] = [:]
  private var held: [String: Set<UInt64>] = [:]
  private var numbers: [String: Int] = [:]

  private func fail(_ text: String) { if failures.count < 5 { failures.append(text) } }

  // MARK: - Bodies

  /// The next body of a conversation, padded to about `size` bytes.
  func nextBody(from: String, to: String, size: Int, now: Instant) -> (name: Name, body: String) {
    let number = numbers[from + ">" + to, default: 0] + 1
    let text = "\(Self.marker) \(from) \(to) \(number) "
    let padded = text + String(repeating: "x", count: max(1, size - text.utf8.count - 12)) + " "
    return (Name(from: from, to: to, number: number), padded + "\(Self.checksum(padded))")
  }

  /// The outbox took it.
  func sent(_ name: Name, now: Instant) {
    numbers[name.from + ">" + name.to] = name.number
    messages[name] = Sent(at: now)
    unfinished += 1
  }

  private static func checksum(_ text: String) -> UInt32 {
    text.utf8.reduce(2_166_136_261) { ($0 ^ UInt32($1)) &* 16_777_619 }
  }

  /// The message that a body is of; nil when it is broken.
  static func name(in body: String) -> Name? {
    guard let space = body.lastIndex(of: " ") else { return nil }
    let padded = body[...space]
    guard "\(checksum(String(padded)))" == body[body.index(after: space)...] else { return nil }
    let words = body.split(separator: " ")
    guard words.count == 6, words[0] == marker, let number = Int(words[3]) else { return nil }
    return Name(from: String(words[1]), to: String(words[2]), number: number)
  }

  // MARK: - What happened

  /// A process began; coming back to it later is no new beginning.
  func began(instance: String, now: Instant) { instanceBegan[instance] = instanceBegan[instance] ?? now }

  func serverHeld(from: String, messageId: UInt64) { held[from, default: []].insert(messageId) }

  /// The sender was told ACCEPTED.
  func accepted(_ name: Name, messageId: UInt64, now: Instant) {
    messages[name]?.acceptedAt = now
    if held[name.from]?.contains(messageId) != true { fail("\(name) is ACCEPTED and no server ever had it") }
  }

  func later() { laterEvents += 1 }

  /// The sender was told that it is finished.
  func finished(_ name: Name, _ state: MessageState, now: Instant) {
    guard let message = messages[name] else { return fail("\(name) is finished and was never sent") }
    if message.finishedAt != nil { return fail("\(name) is finished twice") }
    messages[name]?.finishedAt = now
    unfinished -= 1
    switch state {
    case .delivered: if message.takenBy.isEmpty { fail("\(name) is DELIVERED and no application took it") }
    case .stored:
      messages[name]?.isStored = true
    default: fail("\(name) ended as \(state)")
    }
  }

  /// The sender was told more of a message that is finished.
  func followed(_ name: Name, _ state: MessageState) {
    guard let message = messages[name] else { return fail("\(name) is \(state) and was never sent") }
    if message.finishedAt == nil { fail("\(name) is \(state) past its outbox") }
    if state != .delivered { fail("\(name) is \(state)") }
    if message.takenBy.isEmpty { fail("\(name) is DELIVERED and no application took it") }
    messages[name]?.isFollowed = true
  }

  /// To be called at the end, of a sender who is there.
  func checkFollowed(from user: String) {
    let untold = messages.filter { $0.key.from == user && $0.value.isStored && !$0.value.isFollowed }.map(\.key)
    if let first = untold.min(by: { $0.number < $1.number }) {
      fail("STORED, taken, and its sender does not know: \(untold.count) messages, the first is \(first)")
    }
  }

  /// An application took a message.
  func taken(_ message: IncomingMessage, by instance: String, user: String, now: Instant) {
    guard let name = Self.name(in: message.content.text) else { return fail("\(user) was shown a broken body") }
    guard name.to == user, name.from == message.from else {
      return fail("\(name) was shown to \(user) as from \(message.from)")
    }
    guard var record = messages[name] else { return fail("\(name) was shown and never sent") }
    if record.takenBy[instance] != nil { fail("\(name) was shown twice to \(instance)") }
    if !record.takenBy.isEmpty {
      shownAgainAfterRestart += 1
      if let finished = record.finishedAt, !record.isStored, finished < instanceBegan[instance] ?? finished {
        fail("\(name) was finished before \(instance) began, and shown to it")
      }
    }
    record.takenBy[instance, default: 0] += 1
    if record.firstTaken == nil {
      record.firstTaken = now
      taken += 1
      if message.transport == .udp { firstByUDP += 1 }
    }
    messages[name] = record
    // One sender device a name here: a sender that restarts keeps its outbox.
    let conversation = instance + "<" + name.from
    if message.isLate {
      late += 1
    } else {
      if name.number <= newestShown[conversation] ?? 0 {
        fail("\(name) was shown to \(instance) after a later one")
      }
      newestShown[conversation] = name.number
    }
  }

  var isComplete: Bool { unfinished == 0 && taken == messages.count }

  /// To be called at the end.
  func checkAllArrived() {
    let lost = messages.filter { $0.value.takenBy.isEmpty }.map(\.key)
    if let first = lost.min(by: { $0.number < $1.number }) {
      fail("lost: \(lost.count) messages, the first is \(first)")
    }
    let open = messages.filter { $0.value.finishedAt == nil }.map(\.key)
    if let first = open.min(by: { $0.number < $1.number }) {
      fail("not finished: \(open.count) messages, the first is \(first)")
    }
  }

  /// From `send` to the application, in milliseconds, sorted.
  var latencies: [Double] {
    messages.values.compactMap { message in message.firstTaken.map { ($0 - message.at).milliseconds } }.sorted()
  }
}
