/// Judges a history, event by event. It knows nothing of how the events came about: no clock, no files, no library.
///
/// Events of one device have to come in their order; those of different devices may come mixed, for their writers are
/// different processes.
struct HistoryCheck: Sendable {
  // BOUND: a record of 32 bytes for each message: 32 MB a million, twice that while an array grows.
  private var conversations: [[MessageRecord]] = []
  private var places: [ConversationKey: Int] = [:]
  private var devices: [UInt32: HistoryEvent.Device] = [:]
  private var lives: [LifeKey: Life] = [:]
  private var lastLives: [UInt32: UInt32] = [:]
  private var orders: [OrderKey: ShownOrder] = [:]
  private var found = HistoryVerdict()

  /// How far a run is, without looking at every message.
  struct Progress: Hashable, Sendable {
    var sent = 0
    /// Messages that an application was shown.
    var delivered = 0
    /// Taken, not shown yet and not given up.
    var underWay = 0
  }
  private(set) var progress = Progress()
  var faults: [String: UInt64] { found.faults }

  private struct ConversationKey: Hashable {
    var device: UInt32
    var life: UInt32
    var to: UInt32
  }

  private struct LifeKey: Hashable {
    var device: UInt32
    var life: UInt32
  }

  private struct Life {
    var began: UInt64
    var isOver = false
    var isKilled = false
  }

  private struct OrderKey: Hashable {
    var reader: UInt32
    var sender: UInt32
  }

  /// How far a device was shown another's messages.
  private struct ShownOrder {
    var life: UInt32
    var highestInLife: UInt64
    var highest: UInt64
  }

  mutating func note(_ event: HistoryEvent) {
    switch event.what {
    case .run: break
    case .device(let device): devices[device.number] = device
    case .life(let device, let life):
      lives[LifeKey(device: device, life: life)] = Life(began: event.time)
      lastLives[device] = life
    case .over(let device, let life, let isKilled):
      lives[LifeKey(device: device, life: life)]?.isOver = true
      lives[LifeKey(device: device, life: life)]?.isKilled = isKilled
    case .send(let name): change(name) { $0.sent(at: event.time) }
    case .took(let name):
      progress.sent += 1
      change(name) { $0.taken(at: event.time) }
    case .receipt(let name, let state): noteReceipt(name, state, at: event.time)
    case .delivery(let delivery): noteDelivery(delivery, at: event.time)
    case .acknowledging(let name, let reader): change(name) { $0.acknowledging(by: reader) }
    case .acknowledged(let name, let reader): change(name) { $0.acknowledged(by: reader) }
    case .fault(let kind, let isBegin, _): if isBegin { found.faults[kind, default: 0] += 1 }
    case .finish(let how): found.finish = how
    }
  }

  mutating func noteUnreadable() { found.unreadable += 1 }

  // MARK: - Events

  private mutating func noteReceipt(_ name: MessageName, _ state: ReceiptState, at time: UInt64) {
    let last = change(name) { $0.noteReceipt(state, at: time) }
    if let last, !state.mayFollow(last) {
      found.add(.lied, "\(name.words): \(state.rawValue) was said after \(last.rawValue)")
    }
  }

  private mutating func noteDelivery(_ delivery: HistoryEvent.Delivery, at time: UInt64) {
    let place = "device \(delivery.device) (life \(delivery.life)) at \(Self.seconds(time))"
    guard let name = delivery.message else {
      return found.add(.corrupt, "what \(place) was shown from \(delivery.from) is not as it was sent")
    }
    let reader = devices[delivery.device]
    guard devices[name.device].map({ $0.name == delivery.from }) ?? true, reader.map({ $0.user == name.to }) ?? true
    else {
      let sender = devices[name.device]?.name ?? "unknown"
      return found.add(
        .misdirected,
        "\(name.words), sent by \(sender), came from \(delivery.from) to \(place), user \(reader?.user ?? 0)")
    }
    if delivery.isLate { found.add(.outOfOrder, "\(name.words) was shown to \(place), marked as late") }
    let earlier = change(name) { record -> MessageRecord in
      defer { record.shown(delivery, at: time) }
      return record
    }
    let isFirst = !earlier.flags.contains(.shown)
    if !isFirst { noteAgain(name, delivery, earlier, place) }
    noteOrder(name, delivery, isFirst: isFirst, place)
  }

  /// Shown a second time: there has to be a reason.
  private mutating func noteAgain(
    _ name: MessageName, _ delivery: HistoryEvent.Delivery, _ earlier: MessageRecord, _ place: String
  ) {
    func add(_ why: String) { found.add(.doubled, "\(name.words) was shown to \(place) again: \(why)") }
    guard earlier.shownDevice == delivery.device else {
      // Another program without a store. Once its sender had been told, nobody offers a message any more; unless he was
      // killed before his store was told as well.
      let isForgotten = lives[LifeKey(device: name.device, life: name.life)]?.isKilled ?? false
      let began = lives[LifeKey(device: delivery.device, life: delivery.life)]?.began ?? 0
      if earlier.toldAt > 0, earlier.toldAt < began / 1000, !isForgotten {
        add("its sender was told DELIVERED at \(Self.seconds(earlier.toldAt * 1000)), before this program began")
      } else {
        found.shownToAnother += 1
      }
      return
    }
    if earlier.shownLife == delivery.life {
      add("in the same life, first at \(Self.seconds(UInt64(earlier.shownAt) * 1000))")
    } else if earlier.flags.contains(.acknowledged) || devices[delivery.device]?.acknowledgesByHand != true {
      add("it was acknowledged in life \(earlier.shownLife)")
    } else if !delivery.isRedelivered {
      add("not marked as shown before, which it was in life \(earlier.shownLife)")
    } else {
      found.redelivered += 1
    }
  }

  private mutating func noteOrder(
    _ name: MessageName, _ delivery: HistoryEvent.Delivery, isFirst: Bool, _ place: String
  ) {
    let key = OrderKey(reader: delivery.device, sender: name.device)
    var shown = orders[key] ?? ShownOrder(life: delivery.life, highestInLife: 0, highest: 0)
    if shown.life != delivery.life { (shown.life, shown.highestInLife) = (delivery.life, 0) }
    // A message shown twice in a life is doubled, which is told; one shown again in the next keeps to its order there.
    if name.order < (isFirst ? shown.highest : shown.highestInLife), !delivery.isLate {
      let highest = isFirst ? shown.highest : shown.highestInLife
      found.add(
        .outOfOrder,
        "\(name.words) was shown to \(place) after message \(highest & 0xFFFF_FFFF) of life \(highest >> 32)")
    }
    shown.highestInLife = max(shown.highestInLife, name.order)
    shown.highest = max(shown.highest, name.order)
    orders[key] = shown
  }

  // MARK: - Records

  /// BOUND: numbers beyond 2^28 are of no run; they share the last place.
  @discardableResult
  private mutating func change<R>(_ name: MessageName, _ body: (inout MessageRecord) -> R) -> R {
    let key = ConversationKey(device: name.device, life: name.life, to: name.to)
    let place: Int
    if let known = places[key] {
      place = known
    } else {
      place = conversations.count
      conversations.append([])
      places[key] = place
    }
    let index = Int(min(name.number, Self.largestNumber)) - 1
    let missing = index + 1 - conversations[place].count
    if missing > 0 { conversations[place].append(contentsOf: repeatElement(MessageRecord(), count: missing)) }
    let wasOpen = conversations[place][index].isOpen
    let wasShown = conversations[place][index].flags.contains(.shown)
    defer {
      let record = conversations[place][index]
      if record.isOpen != wasOpen { progress.underWay += wasOpen ? -1 : 1 }
      if !wasShown, record.flags.contains(.shown) { progress.delivered += 1 }
    }
    return body(&conversations[place][index])
  }

  static let largestNumber: UInt32 = 1 << 28

  static func seconds(_ microseconds: UInt64) -> String { "\(Double(microseconds / 1000) / 1000) s" }

  // MARK: - The end

  /// The verdict if nothing more happened.
  var verdict: HistoryVerdict {
    var verdict = found
    for (key, place) in places {
      for (index, record) in conversations[place].enumerated() where !record.flags.isEmpty {
        let name = MessageName(device: key.device, life: key.life, to: key.to, number: UInt32(index) + 1)
        judge(name, record, &verdict)
      }
    }
    return verdict
  }

  private func judge(_ name: MessageName, _ record: MessageRecord, _ verdict: inout HistoryVerdict) {
    let isShown = record.flags.contains(.shown)
    let isTaken = record.flags.contains(.taken)
    if record.flags.contains(.offered) { verdict.offered += 1 }
    if isTaken { verdict.sent += 1 }
    if isShown { verdict.delivered += 1 }
    for state in ReceiptState.allCases where record.states & state.bit != 0 { verdict.receipts[state, default: 0] += 1 }
    if isShown, !record.flags.contains(.offered) { verdict.add(.invented, "\(name.words) was shown, and never sent") }
    if isShown, isTaken, record.delay > verdict.longest {
      (verdict.longest, verdict.longestMessage) = (record.delay, name)
    }
    let isGivenUp = record.states & (ReceiptState.rejected.bit | ReceiptState.expired.bit) != 0
    if isShown, isGivenUp {
      let word = record.states & ReceiptState.rejected.bit != 0 ? "rejected" : "expired"
      verdict.add(.lied, "\(name.words): its sender was told \(word), and it was shown")
    }
    if isTaken, !isShown, !isGivenUp { judgeMissing(name, record, &verdict) }
    if isShown, isAbandoned(record), hasEnded {
      verdict.add(
        .lost,
        "\(name.words) was shown to device \(record.shownDevice) in life \(record.shownLife), which ended without "
          + "acknowledging it, and never again")
    }
  }

  private var hasEnded: Bool { found.finish == .drained || found.finish == .timeout }

  private func judgeMissing(_ name: MessageName, _ record: MessageRecord, _ verdict: inout HistoryVerdict) {
    let told = [ReceiptState.read, .delivered, .stored].first { record.states & $0.bit != 0 }
    guard hasEnded else {
      verdict.unfinished += 1
      return
    }
    // A program without a store takes what is open with it, and says so by its end.
    let isGone =
      devices[name.device].map { !$0.hasStore } ?? false
      && lives[LifeKey(device: name.device, life: name.life)]?.isOver ?? false
    if let told {
      verdict.add(.lied, "\(name.words): its sender was told \(told.rawValue), and it was never shown")
      verdict.add(.lost, "\(name.words), sent at \(Self.seconds(record.sentAt)), \(told.rawValue), was never shown")
    } else if isGone {
      verdict.unfinished += 1
    } else {
      let last = record.last.map { "its last receipt is \($0.rawValue)" } ?? "it has no receipt"
      let fault: HistoryVerdict.Fault = found.finish == .timeout ? .stuck : .lost
      verdict.add(fault, "\(name.words), sent at \(Self.seconds(record.sentAt)), was never shown; \(last)")
    }
  }

  /// Shown to a program that ended before it began to acknowledge; and that device has run since.
  private func isAbandoned(_ record: MessageRecord) -> Bool {
    guard let device = devices[record.shownDevice], device.hasStore, device.acknowledgesByHand,
      !record.flags.contains(.acknowledging)
    else { return false }
    return record.shownLife < lastLives[record.shownDevice] ?? 0
  }
}
