internal import SimpSupport

extension HistoryEvent {
  /// The event as a line of a history, without its end: a JSON object without nested values.
  var line: String {
    var line = "{\"t\":\(fixed(Double(time) / 1e6, digits: 6)),\"e\":"
    func name(_ message: MessageName, _ event: String) {
      line += "\"\(event)\"" + message.members
    }
    switch what {
    case .run(let id, let seed): line += "\"run\",\"version\":1,\"run\":\(id),\"seed\":\(seed)"
    case .device(let device):
      line += "\"device\",\"dev\":\(device.number),\"user\":\(device.user),\"name\":\(Self.quote(device.name))"
      line += ",\"store\":\(device.hasStore),\"manual\":\(device.acknowledgesByHand)"
    case .life(let device, let life): line += "\"start\",\"dev\":\(device),\"life\":\(life)"
    case .over(let device, let life, let isKilled):
      line += "\"end\",\"dev\":\(device),\"life\":\(life),\"killed\":\(isKilled)"
    case .send(let message): name(message, "send")
    case .took(let message): name(message, "took")
    case .receipt(let message, let state):
      name(message, "receipt")
      line += ",\"state\":\"\(state.rawValue)\""
    case .delivery(let delivery): line += delivery.members
    case .acknowledging(let message, let reader):
      name(message, "acking")
      line += ",\"by\":\(reader)"
    case .acknowledged(let message, let reader):
      name(message, "acked")
      line += ",\"by\":\(reader)"
    case .fault(let kind, let isBegin, let detail):
      line += "\"fault\",\"kind\":\(Self.quote(kind)),\"begin\":\(isBegin),\"detail\":\(Self.quote(detail))"
    case .finish(let how): line += "\"finish\",\"how\":\"\(how.rawValue)\""
    }
    return line + "}"
  }

  fileprivate static func quote(_ text: String) -> String { JSONValue.string(text).description }

  /// Reads a line back.
  ///
  /// - Returns: nil when it is no event of a history: damaged, or of a later version.
  init?(line: some StringProtocol) {
    guard let fields = FlatObject(line), let time = fields.time, let event = fields.text("e"),
      let what = What(event, fields)
    else { return nil }
    self.init(time: time, what: what)
  }
}

extension MessageName {
  fileprivate var members: String { ",\"dev\":\(device),\"life\":\(life),\"to\":\(to),\"n\":\(number)" }
}

extension HistoryEvent.Delivery {
  fileprivate var members: String {
    var members = "\"delivery\",\"by\":\(device),\"in\":\(life),\"from\":\(HistoryEvent.quote(from))"
    if let message {
      members += message.members
    } else {
      members += ",\"corrupt\":true"
    }
    return members + (isLate ? ",\"late\":true" : "") + (isRedelivered ? ",\"redelivered\":true" : "")
  }
}

extension HistoryEvent.What {
  fileprivate init?(_ event: String, _ fields: FlatObject) {
    switch event {
    case "run":
      guard fields.number("version") == 1, let id = fields.small("run"), let seed = fields.number("seed") else {
        return nil
      }
      self = .run(id: id, seed: seed)
    case "device":
      guard let number = fields.small("dev"), let user = fields.small("user"), let name = fields.text("name") else {
        return nil
      }
      self = .device(
        .init(
          number: number, user: user, name: name, hasStore: fields.flag("store"),
          acknowledgesByHand: fields.flag("manual")))
    case "start", "end":
      guard let device = fields.small("dev"), let life = fields.small("life") else { return nil }
      self =
        event == "start"
        ? .life(device: device, life: life) : .over(device: device, life: life, isKilled: fields.flag("killed"))
    case "delivery":
      guard let device = fields.small("by"), let life = fields.small("in"), let from = fields.text("from") else {
        return nil
      }
      let message = fields.message
      guard message != nil || fields.flag("corrupt") else { return nil }
      self = .delivery(
        .init(
          device: device, life: life, message: message, from: from, isLate: fields.flag("late"),
          isRedelivered: fields.flag("redelivered")))
    case "fault":
      guard let kind = fields.text("kind") else { return nil }
      self = .fault(kind: kind, isBegin: fields.flag("begin"), detail: fields.text("detail") ?? "")
    case "finish":
      guard let how = fields.text("how").flatMap(HistoryEvent.Finish.init) else { return nil }
      self = .finish(how)
    default:
      guard let message = fields.message else { return nil }
      switch event {
      case "send": self = .send(message)
      case "took": self = .took(message)
      case "receipt":
        guard let state = fields.text("state").flatMap(ReceiptState.init) else { return nil }
        self = .receipt(message, state)
      case "acking", "acked":
        guard let reader = fields.small("by") else { return nil }
        self = event == "acking" ? .acknowledging(message, by: reader) : .acknowledged(message, by: reader)
      default: return nil
      }
    }
  }
}

extension FlatObject {
  fileprivate var message: MessageName? {
    guard let device = small("dev"), let life = small("life"), let to = small("to"), let number = small("n"), number > 0
    else { return nil }
    return MessageName(device: device, life: life, to: to, number: number)
  }

  /// Seconds with a fraction, as microseconds.
  fileprivate var time: UInt64? {
    guard let seconds = raw("t").flatMap({ Double($0) }), seconds >= 0, seconds < 1e9 else { return nil }
    return UInt64((seconds * 1e6).rounded())
  }
}
