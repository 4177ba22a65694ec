@testable import SimpCore
@testable import SimpRedis
@testable import SimpServer

/// What Redis keeps, with the rules of its scripts: device numbers by outbox, epochs, endpoints. Outlives servers.
final class SimulatedStore {
  private struct Devices {
    var numbers: [UInt64: UInt32] = [:]
    var last: UInt32 = 0
    var epoch: UInt64 = 0
  }

  private var devices: [String: Devices] = [:]
  private(set) var endpoints: [String: EndpointRecord] = [:]
  private var nodes: [String: String] = [:]
  /// Users whose endpoint says that they are catching up.
  private(set) var catchingUp: Set<String> = []
  private var inboxes: [String: Inbox] = [:]
  private(set) var stored = 0
  var marks = SimulatedMarks()

  private struct Inbox {
    var entries: [InboxEntry] = []
    var taken: Set<String> = []
    var last: UInt64 = 0
  }

  func open(user: String, login: Login, proposedEpoch: UInt64) -> LoginGrant {
    var known = devices[user] ?? Devices()
    let number: UInt32
    if let given = known.numbers[login.outboxId] {
      number = given
    } else if login.deviceNumber > 0, !known.numbers.values.contains(login.deviceNumber) {
      number = login.deviceNumber
    } else {
      number = max(known.last, login.deviceNumber) + 1
    }
    known.numbers[login.outboxId] = number
    known.last = max(known.last, number)
    known.epoch = max(proposedEpoch, known.epoch + 1)
    devices[user] = known
    return LoginGrant(deviceNumber: number, epoch: known.epoch)
  }

  func write(_ record: EndpointRecord, node: String) -> EndpointState {
    if (devices[record.user]?.epoch ?? 0) > record.epoch { return .superseded }
    if let old = endpoints[record.user], old.epoch > record.epoch { return .superseded }
    endpoints[record.user] = record
    nodes[record.user] = node
    guard inboxes[record.user]?.entries.isEmpty ?? true else {
      catchingUp.insert(record.user)
      return .catchingUp
    }
    catchingUp.remove(record.user)
    return .live
  }

  // MARK: - Inboxes

  func append(
    _ message: InboxMessage, to user: String, knownDead: UInt64, spilling: UInt64
  ) -> InboxAnswer {
    if let endpoint = endpoints[user], !catchingUp.contains(user) {
      guard endpoint.epoch <= max(knownDead, spilling) else {
        return .live(node: nodes[user] ?? "", epoch: endpoint.epoch)
      }
    }
    func name(_ order: UInt64) -> String { "\(message.from) \(message.device) \(order)" }
    let taken = inboxes[user]?.taken ?? []
    if taken.contains(name(message.order)) { return .duplicate }
    if message.follows, message.order > message.floor, !taken.contains(name(message.order - 1)) { return .gap }
    inboxes[user, default: Inbox()].taken.insert(name(message.order))
    if endpoints[user] != nil { catchingUp.insert(user) }
    inboxes[user]?.last += 1
    let id = InboxEntry.ID(milliseconds: 1, sequence: inboxes[user]?.last ?? 0)
    inboxes[user]?.entries.append(
      InboxEntry(
        id: id, from: message.from, device: message.device, order: message.order, expires: message.expires,
        payload: message.payload))
    stored += 1
    return .stored(id, toStranger: devices[user] == nil)
  }

  func read(of user: String, after: InboxEntry.ID?, count: Int, bytes: Int) -> [InboxEntry] {
    var room = bytes
    var found: [InboxEntry] = []
    for entry in inboxes[user]?.entries ?? [] where after.map({ entry.id > $0 }) ?? true {
      room -= entry.payload.count
      if found.count == count || (room < 0 && !found.isEmpty) { break }
      found.append(entry)
    }
    return found
  }

  func remove(from user: String, entries: [InboxEntry.ID]) {
    let gone = Set(entries)
    inboxes[user]?.entries.removeAll { gone.contains($0.id) }
  }

  /// Users with something in their inbox.
  var behind: [String] { inboxes.filter { !$0.value.entries.isEmpty }.keys.sorted() }

  func remove(_ record: EndpointRecord) {
    guard endpoints[record.user]?.epoch == record.epoch else { return }
    endpoints[record.user] = nil
    catchingUp.remove(record.user)
  }
}
