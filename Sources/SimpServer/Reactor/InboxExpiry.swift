internal import SimpCore
internal import SimpIO
internal import SimpRedis
internal import SimpSupport

/// Takes out of inboxes what nobody took in time, and has the senders told EXPIRED.
///
/// One reactor does it for its server, one user after the other; each of several servers may, for all of it can be done
/// twice. On its loop only.
final class InboxExpiry {
  private let loop: EventLoop
  private let store: InboxStore
  private let log: Log
  private let period: Interval
  /// Who is here takes his messages just now, and is left alone.
  private let isHere: (String) -> Bool
  private let onMarked: ([Mark]) -> Void
  private var timer: LoopTimer!

  /// BOUND: users in one look; those of the earliest times first.
  private static let maximumUsers = 1000
  static let longestPeriod = Interval.seconds(5)

  /// - Parameters:
  ///   - lifetime: of messages; it is looked at least twice in it.
  ///   - onMarked: called with the marks that the store has.
  init(
    loop: EventLoop, store: InboxStore, lifetime: Interval, log: Log, isHere: @escaping (String) -> Bool,
    onMarked: @escaping ([Mark]) -> Void
  ) {
    self.loop = loop
    self.store = store
    self.log = log
    self.isHere = isHere
    self.onMarked = onMarked
    period = min(Self.longestPeriod, Interval(nanoseconds: lifetime.nanoseconds / 2))
    timer = loop.makeTimer { [unowned self] in self.look() }
    rest()
  }

  private func rest() { timer.arm(at: loop.now + period) }

  private func look() {
    guard store.link.isUp else { return rest() }
    store.directory.expiring(before: EventLoop.wallClockMilliseconds, limit: Self.maximumUsers) { [weak self] result in
      guard let self else { return }
      switch result {
      case .success(let users): self.clear(users.filter { !self.isHere($0) }[...])
      case .failure(let error): self.giveUp(error)
      }
    }
  }

  private func clear(_ users: ArraySlice<String>) {
    guard let user = users.first else { return rest() }
    store.directory.expire(
      user: user, now: EventLoop.wallClockMilliseconds, limit: InboxDirectory.maximumBatch
    ) { [weak self] result in
      guard let self else { return }
      switch result {
      case .success(let entries) where entries.isEmpty: self.clear(users.dropFirst())
      case .success(let entries): self.remove(entries, of: users)
      case .failure(let error): self.giveUp(error)
      }
    }
  }

  /// - Parameter users: the first of them is whose entries they are.
  private func remove(_ entries: [InboxEntry], of users: ArraySlice<String>) {
    let user = users[users.startIndex]
    let over = entries.map { entry in
      ConfirmedEntry(
        id: entry.id, sender: SessionEntry.SenderDevice(user: entry.from, device: entry.device), order: entry.order)
    }
    let marks = ConfirmedEntry.marks(of: over, state: .expired, recipient: user)
    store.confirm(of: user, entries: entries.map(\.id), marks: marks) { [weak self] isDone in
      guard let self else { return }
      guard isDone else { return self.rest() }
      self.store.counters.expired.add(UInt64(entries.count))
      self.log.info("messages expired", ["user": user, "messages": entries.count])
      self.onMarked(marks)
      self.clear(users)
    }
  }

  /// What is left is found again.
  private func giveUp(_ error: RedisError) {
    log.debug("inboxes not cleared", ["reason": error])
    rest()
  }
}
