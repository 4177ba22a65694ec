internal import SimpCore
internal import SimpIO
internal import SimpStore

/// The thread that writes a connection's store: neither callers nor the I/O thread wait for the disk. What comes while it
/// waits for the disk goes into the next commit together.
///
/// `@unchecked Sendable`: `waiting` is a lock. Everything under "On the thread" belongs to the thread of `loop`.
final class StoreWriter: @unchecked Sendable {
  /// What a commit did, in the order of the commits.
  enum Report: Sendable {
    case sent([(letter: Letter, counter: UInt64, order: UInt64)])
    /// Not taken, and no number was used up.
    case refused([Letter], SIMPError)
    case received([ReceivedMessage])
    /// What came is not in the store yet, and not receipted; it is tried again each second.
    case failing(SIMPError)
    /// The owner and the device number are in it, or not.
    case loggedIn(StoreBatch.Login, SIMPError?)
  }

  /// BOUND: letters by the limits of `Outgoing`, the rest by the windows of both directions.
  private struct Waiting {
    var letters: [Letter] = []
    var batch = StoreBatch()
    var isScheduled = false
  }

  let handover: HandoverLog
  private let loop: EventLoop
  private let report: @Sendable (Report) -> Void
  private let waiting = Locked(Waiting())

  // MARK: On the thread

  private var store: MessageStore?
  /// What could not be committed and must be: all but letters.
  private var kept = StoreBatch()
  private var timer: LoopTimer?

  /// - Parameters:
  ///   - store: nobody else has it.
  ///   - report: called on the writer's thread.
  /// - Throws: when descriptors ran out.
  init(_ store: MessageStore, report: @escaping @Sendable (Report) -> Void) throws(SIMPError) {
    do throws(IOError) {
      loop = try EventLoop()
    } catch {
      throw SIMPError(.system, "\(error)")
    }
    handover = store.handover
    self.store = store
    self.report = report
    loop.startThread(name: "simp-store")
  }

  // MARK: - From the I/O thread

  func send(_ letters: [Letter]) { submit { $0.letters += letters } }

  func receive(_ messages: [IncomingMessage]) { submit { $0.batch.received += messages } }

  func finish(_ counters: [UInt64]) { submit { $0.batch.finished += counters } }

  func logIn(_ login: StoreBatch.Login) { submit { $0.batch.login = login } }

  func take(handedOver: [UInt64], acknowledged: [UInt64]) {
    submit { waiting in
      waiting.batch.handedOver += handedOver
      waiting.batch.acknowledged += acknowledged
    }
  }

  private func submit(_ add: (inout Waiting) -> Void) {
    let isFirst = waiting.withLock { waiting in
      add(&waiting)
      defer { waiting.isScheduled = true }
      return !waiting.isScheduled
    }
    if isFirst { loop.execute { self.write() } }
  }

  /// Commits what was given before, closes the file, and ends the thread.
  ///
  /// - Parameter completion: called on the writer's thread.
  func close(completion: @escaping @Sendable () -> Void) {
    loop.execute { [self] in
      write()
      timer?.close()
      timer = nil
      store?.close()
      store = nil
      completion()
      loop.close()
    }
  }

  // MARK: - On the thread

  private func write() {
    let work = waiting.withLock { waiting in
      let work = waiting
      waiting = Waiting()
      return work
    }
    guard let store else { return }
    kept.add(work.batch)
    let letters = work.letters
    if !letters.isEmpty, !kept.isEmpty {
      var batch = kept
      batch.sent = letters.map { ($0.content, $0.user) }
      // One commit for all; if that cannot be, each learns for itself.
      if let numbers = try? store.commit(batch) {
        sent(letters, numbers)
        committed(numbers.received)
        return
      }
    }
    if !kept.isEmpty {
      do throws(StoreError) {
        committed(try store.commit(kept).received)
      } catch {
        failed(SIMPError(error))
      }
    }
    guard !letters.isEmpty else { return }
    var batch = StoreBatch()
    batch.sent = letters.map { ($0.content, $0.user) }
    do throws(StoreError) {
      sent(letters, try store.commit(batch))
    } catch {
      report(.refused(letters, SIMPError(error)))
    }
  }

  private func sent(_ letters: [Letter], _ numbers: StoreNumbers) {
    report(.sent(zip(letters, numbers.sent).map { ($0, $1.counter, $1.order) }))
  }

  private func committed(_ ids: [UInt64]) {
    if !ids.isEmpty {
      report(.received(zip(ids, kept.received).map { ReceivedMessage(id: $0, message: $1) }))
    }
    if let login = kept.login { report(.loggedIn(login, nil)) }
    kept = StoreBatch()
  }

  private func failed(_ error: SIMPError) {
    if let login = kept.login { report(.loggedIn(login, error)) }
    kept.login = nil
    if !kept.received.isEmpty { report(.failing(error)) }
    if timer == nil { timer = loop.makeTimer { [unowned self] in write() } }
    timer?.arm(at: loop.now + .seconds(1))
  }
}

extension StoreBatch {
  /// What came later goes behind.
  fileprivate mutating func add(_ later: StoreBatch) {
    finished += later.finished
    received += later.received
    handedOver += later.handedOver
    acknowledged += later.acknowledged
    login = later.login ?? login
  }
}

extension SIMPError {
  init(_ error: StoreError) {
    let code: Code =
      switch error {
      case .inUse: .storeInUse
      case .notAStore, .newerVersion, .noAccess, .damaged: .storeInvalid
      case .ofAnother: .storeOfAnother
      case .full: .outboxFull
      case .readOnly, .diskFull, .failed: .storeFailed
      }
    self.init(code, "\(error)")
  }
}
