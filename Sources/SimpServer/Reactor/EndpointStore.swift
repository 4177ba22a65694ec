internal import SimpCore
internal import SimpIO
internal import SimpRedis
internal import SimpSupport

/// The endpoints of one reactor's sessions in Redis: what is wanted there, repeated until Redis has it.
///
/// A Redis that is away delays a write and loses none; one that came back empty gets everything again.
final class EndpointStore {
  private struct Device: Hashable {
    var user: String
    var number: UInt32
  }

  private struct Wanted {
    var record: EndpointRecord
    /// False: to be removed.
    var isPresent: Bool
    var generation: UInt64
  }

  let link: RedisLink
  let directory: EndpointDirectory
  private let revocations: RevocationDirectory
  private let log: Log
  // BOUND: one entry a device whose session is here, or left while Redis was away; of those at most `maximumOwed`.
  private var wanted: [Device: Wanted] = [:]
  private var generation: UInt64 = 0
  private var onFirstUp: (() -> Void)?
  private static let maximumOwed = 65_536

  /// - Parameter rewrite: called when Redis is back, to write everything that is live.
  init(loop: EventLoop, address: RedisAddress, node: String, log: Log, rewrite: @escaping () -> Void) {
    link = RedisLink(loop: loop, address: address)
    directory = EndpointDirectory(loop: loop, link: link, node: node)
    revocations = RevocationDirectory(link: link)
    self.log = log
    link.onUp = { [weak self] in
      log.info("redis up", ["address": address])
      rewrite()
      self?.sendOwed()
      self?.onFirstUp?()
      self?.onFirstUp = nil
    }
    link.onDown = { log.warn("redis down", ["reason": $0]) }
  }

  /// Begins to connect; `onUp` is called once.
  func start(onUp: @escaping () -> Void) {
    onFirstUp = onUp
    link.start()
  }

  /// Nothing is owed to Redis.
  var isSettled: Bool { wanted.isEmpty }

  func openSession(user: String, login: Login, proposedEpoch: UInt64, completion: @escaping (LoginGrant?) -> Void) {
    // The same link answers in order: this is here before the session is.
    var revoked: Result<UInt64?, RedisError> = .success(nil)
    revocations.read(user: user) { revoked = $0 }
    directory.openSession(
      user: user, outboxId: login.outboxId, presentedDevice: login.deviceNumber & 0xFF_FFFF, sendOnly: login.sendOnly,
      proposedEpoch: proposedEpoch
    ) { [log] result in
      switch result.flatMap({ grant in revoked.map { (grant, $0) } }) {
      case .success((let grant, let until)):
        completion(LoginGrant(deviceNumber: grant.deviceNumber, epoch: grant.epoch, revokedUntil: until))
      case .failure(let error):
        log.warn("redis cannot open a session", ["user": user, "reason": error])
        completion(nil)
      }
    }
  }

  /// - Parameter completion: whether Redis has it.
  func revoke(user: String, until: UInt64, lifetimeSeconds: UInt64, completion: @escaping (Bool) -> Void) {
    revocations.write(user: user, until: until, lifetimeSeconds: lifetimeSeconds) { [log] error in
      if let error { log.warn("redis does not know who was sent away", ["user": user, "reason": error]) }
      completion(error == nil)
    }
  }

  func write(_ record: EndpointRecord) { want(record, isPresent: true) }
  func remove(_ record: EndpointRecord) { want(record, isPresent: false) }

  private func want(_ record: EndpointRecord, isPresent: Bool) {
    let device = Device(user: record.user, number: record.device)
    guard wanted.count < Self.maximumOwed || wanted[device] != nil else {
      return log.warn("endpoint not written, too many wait for redis", ["user": record.user])
    }
    generation += 1
    let entry = Wanted(record: record, isPresent: isPresent, generation: generation)
    wanted[device] = entry
    if link.isUp { send(device, entry) }
  }

  private func sendOwed() {
    for (device, entry) in wanted { send(device, entry) }
  }

  private func send(_ device: Device, _ entry: Wanted) {
    let settle: (Result<Bool, RedisError>) -> Void = { [weak self, log] result in
      switch result {
      case .success:
        if self?.wanted[device]?.generation == entry.generation { self?.wanted[device] = nil }
      case .failure(let error):
        log.debug("endpoint waits for redis", ["user": device.user, "reason": error])
      }
    }
    let record = entry.record
    if entry.isPresent {
      directory.writeEndpoint(
        user: record.user, device: record.device, epoch: record.epoch, connectionId: record.connectionId,
        address: record.address, transport: record.address == nil ? .tcp : .udp, since: record.since,
        completion: settle)
    } else {
      directory.removeEndpoint(
        user: record.user, device: record.device, epoch: record.epoch, completion: settle)
    }
  }
}
