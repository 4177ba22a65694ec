internal import SimpCore

/// What a reactor's sessions want to stand in Redis and may not stand there yet, and in which order it is written.
///
/// Redis answers in order. A server that wrote thousands of endpoints at once, as all of them come back or Redis does,
/// would have its logins wait behind them until they were refused; so only a few are under way at a time.
struct OwedEndpoints {
  struct Device: Hashable {
    var user: String
    var number: UInt32
  }

  struct Write: Equatable {
    var record: EndpointRecord
    /// False: to be removed.
    var isPresent: Bool
    fileprivate var generation: UInt64

    fileprivate var device: Device { Device(user: record.user, number: record.device) }
  }

  private struct Wanted {
    var write: Write
    var isWaiting: Bool
  }

  // BOUND: one entry a device whose session is here, or left while Redis was away: of those none beyond `maximum`. What
  // is left out stands in Redis until the next login of the user, or until this server's name is over.
  private var wanted: [Device: Wanted] = [:]
  // BOUND: each device stands in one of the two once.
  private var waiting = Queue<Device>()
  private var failed: [Device] = []
  private var underWay = 0
  private var generation: UInt64 = 0

  static let maximum = 65_536
  /// What Redis does in a few milliseconds: no login waits for longer behind them.
  static let maximumUnderWay = 64

  var isEmpty: Bool { wanted.isEmpty }
  var hasFailed: Bool { !failed.isEmpty }

  /// - Returns: false for a removal when too much waits already: it is not noted then.
  mutating func want(_ record: EndpointRecord, isPresent: Bool) -> Bool {
    generation += 1
    let write = Write(record: record, isPresent: isPresent, generation: generation)
    let device = write.device
    let isWaiting = wanted[device]?.isWaiting ?? false
    guard isPresent || wanted.count < Self.maximum || wanted[device] != nil else { return false }
    wanted[device] = Wanted(write: write, isWaiting: true)
    if !isWaiting { waiting.append(device) }
    return true
  }

  /// What is to be written now; `answered` follows. nil when enough is under way, or nothing waits.
  mutating func next() -> Write? {
    guard underWay < Self.maximumUnderWay, let device = waiting.popFirst() else { return nil }
    guard let write = wanted[device]?.write else { return nil }
    wanted[device]?.isWaiting = false
    underWay += 1
    return write
  }

  /// - Parameter isStored: false: it is written again after `retryFailed`.
  mutating func answered(_ write: Write, isStored: Bool) {
    underWay -= 1
    let device = write.device
    guard let present = wanted[device], present.write.generation == write.generation else { return }
    if isStored {
      wanted[device] = nil
    } else {
      // As one that waits: a later wish takes its place there.
      wanted[device]?.isWaiting = true
      failed.append(device)
    }
  }

  /// Has all that failed written again.
  mutating func retryFailed() {
    for device in failed { waiting.append(device) }
    failed = []
  }
}
