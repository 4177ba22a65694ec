/// What this device wants delivered and has no final receipt for. Outlives connections. With a store beside it, a
/// message enters the store first and this when that is committed: both number alike.
public final class Outbox {
  /// Names this outbox for ever.
  public let id: UInt64
  /// The device number that servers gave it, 0 before the first login.
  public private(set) var deviceNumber: UInt32 = 0
  public let limitMessages: Int
  public let limitBytes: Int

  struct Entry {
    var counter: UInt64
    var content: MessageContent
    var encoded: EncodedMessage?
    var state = MessageState.unspecified
    var created: Instant
    var accepted: Instant?
    var offers: UInt16 = 0
    /// What happened to it before the present session, or before it was last answered LATER.
    var journey = MessageJourney()
  }

  struct Conversation {
    var user: String
    /// The order the next message gets.
    var nextOrder: UInt64 = 1
    /// The lowest order without a final receipt.
    var floor: UInt64 = 1
    /// The lowest order that was never offered.
    var nextFresh: UInt64 = 1
    /// Offered in an earlier session, or answered LATER and due: to be offered by TCP, lowest first.
    var again: [UInt64] = []
    /// Answered LATER, waiting for `resume`.
    var deferred: Set<UInt64> = []
    var resume: Instant?
    /// Why it waits.
    var laterCode = ErrorCode.unspecified
    /// Orders below this were told that they wait, though they were never offered.
    var announced: UInt64 = 0
    /// Offered again and not accepted yet: what is new waits for them.
    var catchingUp: Set<UInt64> = []
    /// How many of those that wait are offered together, when the lowest was taken.
    var burst = Outbox.firstBurst
    var isReady = false

    var hasFresh: Bool { nextFresh < nextOrder }
    var mayOfferFresh: Bool { hasFresh && again.isEmpty && deferred.isEmpty && catchingUp.isEmpty }
  }

  // BOUND: limitMessages and limitBytes.
  private(set) var entries: [MessageKey: Entry] = [:]
  private(set) var conversations: [Conversation] = []
  private var conversationOfUser: [String: UInt32] = [:]
  private var ready = Queue<UInt32>()
  private var waiting: Set<UInt32> = []
  private var counter: UInt64 = 0
  private(set) var bytes = 0

  /// - Parameter id: random, not 0.
  public init(id: UInt64, limitMessages: Int = 16_384, limitBytes: Int = 64 << 20) {
    precondition(id != 0, "an outbox id is not 0")
    self.id = id
    self.limitMessages = limitMessages
    self.limitBytes = limitBytes
  }

  /// As it was when a store last heard of it. What it holds may have been offered before: it is offered again, by TCP,
  /// before anything new.
  ///
  /// - Parameter contents: each message's order lies below its user's next one.
  /// - Returns: beside it, the keys of the messages, in the order of `contents.messages`.
  public static func restore(
    _ contents: OutboxContents, limitMessages: Int, limitBytes: Int, now: Instant
  ) -> (outbox: Outbox, keys: [MessageKey]) {
    let outbox = Outbox(id: contents.id, limitMessages: limitMessages, limitBytes: limitBytes)
    return (outbox, outbox.take(contents, now: now))
  }

  private func take(_ contents: OutboxContents, now: Instant) -> [MessageKey] {
    deviceNumber = contents.deviceNumber
    counter = contents.counter
    for (user, order) in contents.nextOrders {
      let index = Int(conversation(with: user))
      conversations[index].nextOrder = order
      conversations[index].nextFresh = order
      conversations[index].floor = order
    }
    var keys: [MessageKey] = []
    for message in contents.messages {
      let index = conversation(with: message.user)
      let key = MessageKey(conversation: index, order: message.order)
      entries[key] = Entry(counter: message.counter, content: message.content, created: now)
      bytes += message.content.size
      conversations[Int(index)].floor = min(conversations[Int(index)].floor, message.order)
      keys.append(key)
    }
    sessionEnded()
    return keys
  }

  /// Messages without a final receipt.
  public var count: Int { entries.count }

  /// A recipient that lacked room has it for a few at a time: all that waits would be sent for a few of it to be taken,
  /// and the answers LATER to the rest would make them wait as long again. So batches double while they are taken.
  static let firstBurst = 16

  public enum Full: Error, Hashable, Sendable {
    case messages, bytes
    /// The message would not fit a packet.
    case tooLarge
    /// U+0000 in a string.
    case textInvalid
    case nameInvalid
  }

  /// Takes a message over.
  ///
  /// - Returns: its key, by which events name it, and its counter: with the device number it is the message ID.
  /// - Throws: `Full`; nothing was taken then, and no number was used up.
  public func append(
    _ content: MessageContent, to user: String, now: Instant
  ) throws(Full) -> (key: MessageKey, counter: UInt64) {
    guard Text.isUserName(user) else { throw .nameInvalid }
    guard content.isValidText else { throw .textInvalid }
    guard content.size <= WireLimits.maximumContentBytes else { throw .tooLarge }
    guard entries.count < limitMessages else { throw .messages }
    guard bytes + content.size <= limitBytes else { throw .bytes }
    counter += 1
    let index = conversation(with: user)
    let order = conversations[Int(index)].nextOrder
    conversations[Int(index)].nextOrder += 1
    let key = MessageKey(conversation: index, order: order)
    entries[key] = Entry(counter: counter, content: content, created: now)
    bytes += content.size
    makeReady(index)
    return (key, counter)
  }

  /// The message ID of an entry, 0 before the first login.
  public func messageId(of key: MessageKey) -> UInt64 {
    guard deviceNumber > 0, let entry = entries[key] else { return 0 }
    return UInt64(deviceNumber) << 40 | entry.counter
  }

  func floor(of key: MessageKey) -> UInt64 { conversations[Int(key.conversation)].floor }
  func user(of key: MessageKey) -> String { conversations[Int(key.conversation)].user }
  func conversationIndex(of user: String) -> UInt32? { conversationOfUser[user] }

  // MARK: - Sessions

  /// A login gave this number. Another than before (a store that lost its memory) gives what is not finished new
  /// message IDs; orders stay, for a receiver that meets a device for the first time starts at the floor. What was
  /// delivered and not receipted may then be shown a second time: nobody is left who knows.
  func adopt(deviceNumber number: UInt32) {
    if number == deviceNumber { return }
    deviceNumber = number
    for key in entries.keys { entries[key]?.encoded = nil }
  }

  /// What a session knows of a message goes with it; this stays.
  func journey(of key: MessageKey) -> MessageJourney? { entries[key]?.journey }

  func note(_ entry: MessageWindow.Entry, of key: MessageKey) { entries[key]?.journey.add(entry) }

  /// The connection ended: everything that was offered is offered again, by TCP, before anything new.
  func sessionEnded() {
    for index in conversations.indices {
      let offered = conversations[index].floor..<conversations[index].nextFresh
      conversations[index].again = offered.filter {
        entries[MessageKey(conversation: UInt32(index), order: $0)] != nil
      }
      conversations[index].deferred = []
      conversations[index].catchingUp = []
      conversations[index].resume = nil
      makeReady(UInt32(index))
    }
    waiting = []
    for key in entries.keys {
      entries[key]?.accepted = nil
      entries[key]?.state = .unspecified
    }
  }

  /// The next message to offer, taken out of what waits.
  func nextOffer() -> (key: MessageKey, message: EncodedMessage, byTCP: Bool)? {
    while let index = ready.popFirst() {
      conversations[Int(index)].isReady = false
      guard let (key, byTCP) = nextKey(in: Int(index)) else { continue }
      makeReady(index)
      guard let message = encoded(key) else { continue }
      return (key, message, byTCP)
    }
    return nil
  }

  private func nextKey(in index: Int) -> (MessageKey, byTCP: Bool)? {
    repeat {
      while !conversations[index].again.isEmpty {
        let order = conversations[index].again.removeFirst()
        let key = MessageKey(conversation: UInt32(index), order: order)
        guard entries[key] != nil else { continue }
        conversations[index].catchingUp.insert(order)
        return (key, true)
      }
      // All of a batch may have been finished before it was offered: the next one follows.
    } while takeBatch(of: index)
    guard conversations[index].mayOfferFresh else { return nil }
    // What the receivers can tell apart ends a window above the floor.
    guard conversations[index].nextFresh - conversations[index].floor < WireLimits.orderWindow else { return nil }
    let key = MessageKey(conversation: UInt32(index), order: conversations[index].nextFresh)
    conversations[index].nextFresh += 1
    return (key, false)
  }

  private func encoded(_ key: MessageKey) -> EncodedMessage? {
    guard let entry = entries[key] else { return nil }
    if let encoded = entry.encoded { return encoded }
    let message = EncodedMessage(
      entry.content, messageId: messageId(of: key), order: key.order, toUser: user(of: key))
    entries[key]?.encoded = message
    return message
  }

  // MARK: - Outcomes

  /// A server has the message in memory.
  ///
  /// - Returns: false when that, or more, was known.
  func markAccepted(_ key: MessageKey, now: Instant) -> Bool {
    guard let entry = entries[key] else { return false }
    entries[key]?.accepted = now
    caughtUp(key)
    if entry.state == .accepted { return false }
    entries[key]?.state = .accepted
    return true
  }

  /// The message was refused for now. Its conversation waits, then offers its lowest message, and the rest when that
  /// one is taken.
  ///
  /// - Returns: false when it is not here.
  func markLater(_ key: MessageKey, code: ErrorCode = .notOnline, resume: Instant) -> Bool {
    guard entries[key] != nil else { return false }
    let index = Int(key.conversation)
    entries[key]?.state = .later
    entries[key]?.accepted = nil
    conversations[index].catchingUp.remove(key.order)
    conversations[index].deferred.insert(key.order)
    if conversations[index].resume == nil {
      conversations[index].burst = max(1, conversations[index].burst / 4)
    }
    // What was still to be offered again waits with it: it would be answered LATER as well, and the wait would be over
    // for the lowest alone.
    conversations[index].deferred.formUnion(conversations[index].again)
    conversations[index].again = []
    conversations[index].resume = max(conversations[index].resume ?? resume, resume)
    conversations[index].laterCode = code
    waiting.insert(key.conversation)
    return true
  }

  /// Messages that wait behind one that was answered LATER and were not told so yet: offered now they would get the same
  /// answer, so whoever waits to hear of them gets it here.
  func takeWaitingBehind() -> [(key: MessageKey, code: ErrorCode)] {
    var behind: [(key: MessageKey, code: ErrorCode)] = []
    for index in waiting {
      let conversation = conversations[Int(index)]
      let first = max(conversation.nextFresh, conversation.announced)
      guard first < conversation.nextOrder else { continue }
      conversations[Int(index)].announced = conversation.nextOrder
      for order in first..<conversation.nextOrder {
        let key = MessageKey(conversation: index, order: order)
        guard entries[key] != nil else { continue }
        entries[key]?.state = .later
        behind.append((key, conversation.laterCode))
      }
    }
    return behind
  }

  /// Nothing more is to be done for the message.
  ///
  /// - Returns: nil when it is not here.
  func finish(_ key: MessageKey) -> Entry? {
    guard let entry = entries.removeValue(forKey: key) else { return nil }
    bytes -= entry.content.size
    let index = Int(key.conversation)
    conversations[index].deferred.remove(key.order)
    while conversations[index].floor < conversations[index].nextOrder,
      entries[MessageKey(conversation: key.conversation, order: conversations[index].floor)] == nil
    {
      conversations[index].floor += 1
    }
    caughtUp(key)
    makeReady(key.conversation)
    return entry
  }

  /// Orders of a conversation that an outcome may speak of.
  func openOrders(_ index: UInt32) -> Range<UInt64> {
    conversations[Int(index)].floor..<conversations[Int(index)].nextFresh
  }

  /// Accepted at least `age` ago and not finished, longer for those that were offered again: the keys, their clock
  /// starts anew.
  func overdue(since age: Interval, now: Instant) -> [MessageKey] {
    let keys = entries.filter { _, entry in
      guard let accepted = entry.accepted else { return false }
      return accepted + age * (1 << Int64(min(entry.offers, 4))) <= now
    }
    for key in keys.keys {
      entries[key]?.accepted = now
      entries[key]?.offers += 1
    }
    return keys.keys.sorted { $0.rawValue < $1.rawValue }
  }

  // MARK: - Waiting conversations

  /// When the first waiting conversation is to go on.
  var deadline: Instant? { waiting.compactMap { conversations[Int($0)].resume }.min() }

  /// Conversations whose wait is over offer their lowest message.
  func resume(now: Instant) {
    for index in waiting {
      guard let due = conversations[Int(index)].resume, due <= now else { continue }
      waiting.remove(index)
      conversations[Int(index)].resume = nil
      guard let lowest = conversations[Int(index)].deferred.min() else { continue }
      conversations[Int(index)].deferred.remove(lowest)
      conversations[Int(index)].again = [lowest]
      makeReady(index)
    }
  }

  /// A message was taken: what was deferred with it follows, in order, by TCP, more each time.
  private func caughtUp(_ key: MessageKey) {
    let index = Int(key.conversation)
    conversations[index].catchingUp.remove(key.order)
    _ = takeBatch(of: index)
    makeReady(key.conversation)
  }

  /// Of what was deferred the lowest are to be offered, when nothing offered before is waited for.
  ///
  /// - Returns: whether there are any.
  private func takeBatch(of index: Int) -> Bool {
    let conversation = conversations[index]
    guard conversation.resume == nil, conversation.catchingUp.isEmpty, conversation.again.isEmpty,
      !conversation.deferred.isEmpty
    else { return false }
    // Who was not here has all the room there is.
    let count = conversation.laterCode == .notOnline ? Int.max : conversation.burst
    conversations[index].burst = min(conversation.burst * 2, WireLimits.windowMessages)
    conversations[index].again = Array(conversation.deferred.sorted().prefix(count))
    conversations[index].deferred.subtract(conversations[index].again)
    return true
  }

  // MARK: - Bookkeeping

  private func conversation(with user: String) -> UInt32 {
    if let index = conversationOfUser[user] { return index }
    let index = UInt32(conversations.count)
    conversations.append(Conversation(user: user))
    conversationOfUser[user] = index
    return index
  }

  private func makeReady(_ index: UInt32) {
    let conversation = conversations[Int(index)]
    guard !conversation.isReady, !conversation.again.isEmpty || conversation.mayOfferFresh else { return }
    conversations[Int(index)].isReady = true
    ready.append(index)
  }
}

extension MessageContent {
  /// Bytes it takes in an outbox and, a little rounded up, in a packet.
  public var size: Int {
    var bytes = text.utf8.count + imageURL.utf8.count + custom.count + 64
    if let attachment { bytes += attachment.url.utf8.count + attachment.mime.utf8.count + attachment.sha256.count + 32 }
    return bytes
  }
}
