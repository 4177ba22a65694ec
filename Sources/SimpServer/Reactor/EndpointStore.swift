internal import SimpCore
internal import SimpIO
internal import SimpRedis
internal import SimpSupport

/// The endpoints of one reactor's sessions in Redis: what is wanted there, repeated until Redis has it.
///
/// A Redis that is away delays a write and loses none; one that came back empty gets everything again.
final class EndpointStore {
  let link: RedisLink
  let directory: EndpointDirectory
  private let revocations: RevocationDirectory
  private let log: Log
  private var owed = OwedEndpoints()
  private var retry: LoopTimer!
  private let loop: EventLoop
  private var onFirstUp: (() -> Void)?
  /// Called with what became of an endpoint that was written.
  var onWritten: ((EndpointRecord, EndpointState) -> Void)?
  /// Called with an endpoint that Redis, which is there, did not take: it is full of something, or read-only. It is written
  /// again.
  var onRefused: ((EndpointRecord) -> Void)?
  /// Called when Redis is there, before anything is written, and when it is gone.
  var onUp: (() -> Void)?
  var onDown: (() -> Void)?
  /// After a write failed although Redis is there: it may be full, read-only or slow.
  private static let retryAfter = Interval.seconds(1)

  /// - Parameter rewrite: called when Redis is back, to write everything that is live.
  init(loop: EventLoop, address: RedisAddress, node: String, log: Log, rewrite: @escaping () -> Void) {
    self.loop = loop
    link = RedisLink(loop: loop, address: address)
    directory = EndpointDirectory(loop: loop, link: link, node: node)
    revocations = RevocationDirectory(link: link)
    self.log = log
    retry = loop.makeTimer { [unowned self] in writeOwed() }
    link.onUp = { [weak self] in
      log.info("redis up", ["address": address])
      self?.onUp?()
      rewrite()
      self?.writeOwed()
      self?.onFirstUp?()
      self?.onFirstUp = nil
    }
    link.onDown = { [weak self] in
      log.warn("redis down", ["reason": $0])
      self?.onDown?()
    }
  }

  /// Begins to connect; `onUp` is called once.
  func start(onUp: @escaping () -> Void) {
    onFirstUp = onUp
    link.start()
  }

  /// Nothing is owed to Redis.
  var isSettled: Bool { owed.isEmpty }

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
    guard owed.want(record, isPresent: isPresent) else {
      return log.warn("endpoint not removed, too many wait for redis", ["user": record.user])
    }
    send()
  }

  private func writeOwed() {
    owed.retryFailed()
    send()
  }

  /// Sends what may be under way. While Redis is away nothing is.
  private func send() {
    while link.isUp, let write = owed.next() { send(write) }
  }

  private func send(_ write: OwedEndpoints.Write) {
    let record = write.record
    let settle: (Result<EndpointState?, RedisError>) -> Void = { [weak self, log] result in
      guard let self else { return }
      switch result {
      case .success(let state):
        owed.answered(write, isStored: true)
        if let state { onWritten?(record, state) }
      case .failure(let error):
        log.debug("endpoint waits for redis", ["user": record.user, "reason": error])
        owed.answered(write, isStored: false)
        if link.isUp {
          retry.arm(at: loop.now + Self.retryAfter)
          if write.isPresent { onRefused?(record) }
        }
      }
      send()
    }
    if write.isPresent {
      directory.writeEndpoint(
        user: record.user, device: record.device, epoch: record.epoch, connectionId: record.connectionId,
        address: record.address, transport: record.address == nil ? .tcp : .udp, since: record.since
      ) { settle($0.map { Optional($0) }) }
    } else {
      directory.removeEndpoint(user: record.user, device: record.device, epoch: record.epoch) {
        settle($0.map { _ in nil })
      }
    }
  }
}
