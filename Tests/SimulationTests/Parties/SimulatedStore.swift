@testable import SimpCore
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

  func write(_ record: EndpointRecord) {
    if let old = endpoints[record.user], old.epoch > record.epoch { return }
    endpoints[record.user] = record
  }

  func remove(_ record: EndpointRecord) {
    if endpoints[record.user]?.epoch == record.epoch { endpoints[record.user] = nil }
  }
}
