internal import CHiredis
internal import CSimpRedis
internal import Glibc
internal import SimpCore
internal import SimpIO

/// One hiredis context from connecting to its end, with the commands under way in it.
///
/// hiredis frees the context by itself after an error; its clean-up hook is the one place where that is seen, and after
/// it the pointer is never used again. Every command is answered exactly once, by its reply, by its deadline or by the
/// end of the connection.
@safe
final class RedisConnection {
  /// What the owner is told.
  struct Handlers {
    /// The connection is about to end: commands sent from now on are refused. Comes once, before the commands under
    /// way are answered.
    var failing: (RedisError) -> Void
    /// The oldest command has missed its deadline, and for as long as it was to wait nothing was answered.
    var stalled: () -> Void
    /// The context is gone.
    var closed: () -> Void
  }

  /// BOUND: commands and bytes under way. A stalled Redis makes them wait here, so there must be an end.
  static let maximumInFlight = 16_384
  static let maximumInFlightBytes = 16 << 20

  private let loop: EventLoop
  private var context: UnsafeMutablePointer<redisAsyncContext>?
  private var watch: DescriptorWatch?
  private var handlers: Handlers?
  private var isReading = false
  private var isWriting = false
  /// Set when the end has begun: what the commands under way are answered with.
  private var failure: RedisError?

  /// In the order sent, which is the order of the replies. Those before `firstInFlight` are answered.
  private var inFlight: [PendingCommand?] = []
  private var firstInFlight = 0
  private var inFlightBytes = 0
  private var deadlines: LoopTimer?
  private var lastReply: Instant

  /// Begins to connect to a Unix socket.
  convenience init(loop: EventLoop, path: String, handlers: Handlers) throws(RedisError) {
    // SAFETY: hiredis copies the path.
    unsafe try self.init(loop: loop, context: redisAsyncConnectUnix(path), handlers: handlers)
  }

  /// Begins to connect by TCP.
  ///
  /// - Parameter host: an address, for hiredis would ask a name server on this thread.
  convenience init(loop: EventLoop, host: String, port: UInt16, handlers: Handlers) throws(RedisError) {
    // SAFETY: hiredis copies the text.
    unsafe try self.init(loop: loop, context: redisAsyncConnect(host, Int32(port)), handlers: handlers)
  }

  private init(
    loop: EventLoop, context: UnsafeMutablePointer<redisAsyncContext>?, handlers: Handlers
  ) throws(RedisError) {
    guard let context = unsafe context else { throw RedisError(.cannotConnect, "no memory for a connection to Redis") }
    self.loop = loop
    lastReply = loop.now
    // Looked at before anything else: a context with an error must not be used further.
    guard unsafe context.pointee.err == 0 else {
      let error = unsafe Self.error(of: context, .cannotConnect)
      unsafe redisAsyncFree(context)
      throw error
    }
    self.handlers = handlers
    // hiredis leaves its sockets open to programs started later.
    _ = unsafe fcntl(context.pointee.c.fd, F_SETFD, FD_CLOEXEC)
    do throws(IOError) {
      watch = try DescriptorWatch(loop: loop, fd: unsafe context.pointee.c.fd) { [unowned self] readable, writable in
        self.ready(readable: readable, writable: writable)
      }
    } catch {
      unsafe redisAsyncFree(context)
      throw RedisError(.cannotConnect, "\(error)", systemCode: error.code)
    }
    unsafe self.context = context
    // SAFETY: hiredis holds this object from here until its clean-up hook, which is called once and gives it back.
    let owner = unsafe Unmanaged.passRetained(self).toOpaque()
    unsafe context.pointee.ev.data = owner
    unsafe context.pointee.ev.addRead = { unsafe RedisConnection.of($0).setInterest(reading: true) }
    unsafe context.pointee.ev.delRead = { unsafe RedisConnection.of($0).setInterest(reading: false) }
    unsafe context.pointee.ev.addWrite = { unsafe RedisConnection.of($0).setInterest(writing: true) }
    unsafe context.pointee.ev.delWrite = { unsafe RedisConnection.of($0).setInterest(writing: false) }
    unsafe context.pointee.ev.cleanup = { owner in
      guard let owner = unsafe owner else { return }
      unsafe Unmanaged<RedisConnection>.fromOpaque(owner).takeRetainedValue().contextIsGoing()
    }
    deadlines = loop.makeTimer { [unowned self] in self.deadlineCame() }
  }

  // MARK: Commands

  /// Sends a command. The completion comes later, never from inside this call.
  ///
  /// - Returns: nil, or why nothing was sent; the completion is dropped then.
  func send(
    _ arguments: [RedisArgument], patience: Interval, completion: @escaping (Result<RedisReply, RedisError>) -> Void
  ) -> RedisError? {
    precondition(!arguments.isEmpty, "a command has at least its name")
    guard let context = unsafe context else {
      return RedisError(.notConnected, "there is no connection to Redis now")
    }
    let size = Self.size(arguments)
    guard hasRoom(commands: 1, bytes: size) else { return Self.tooManyInFlight }

    let command = PendingCommand(
      connection: self, sent: loop.now, patience: patience, size: size, completion: completion)
    // SAFETY: hiredis copies the words during the call, and holds `command` until it calls back, which it does once for
    // every command that it took.
    let holder = unsafe Unmanaged.passRetained(command)
    let status = unsafe Self.withWords(arguments) { count, words, lengths in
      unsafe redisAsyncCommandArgv(
        context, { unsafe RedisConnection.replied($0, $1, $2) }, holder.toOpaque(), count, words, lengths)
    }
    // hiredis refuses once the end of the connection has begun.
    guard status == REDIS_OK else {
      unsafe holder.release()
      return RedisError(.notConnected, "the connection to Redis is closing")
    }
    inFlight.append(command)
    inFlightBytes += size
    if let deadlines, command.deadline < deadlines.deadline { deadlines.arm(at: command.deadline) }
    return nil
  }

  private static let tooManyInFlight = RedisError(.tooManyInFlight, "too many commands wait for Redis")

  private static func size(_ arguments: [RedisArgument]) -> Int {
    arguments.reduce(64) { $0 + $1.bytes.count + 16 }
  }

  private func hasRoom(commands: Int, bytes: Int) -> Bool {
    inFlight.count - firstInFlight + commands <= Self.maximumInFlight
      && inFlightBytes + bytes <= Self.maximumInFlightBytes
  }

  /// Sends commands between MULTI and EXEC: all of them or none.
  ///
  /// - Returns: nil, or why nothing was done; the batch's completions are not called then.
  func send(_ batch: RedisBatch) -> RedisError? {
    let words: [[RedisArgument]] = [["MULTI"]] + batch.commands.map(\.arguments) + [["EXEC"]]
    // Looked at for all of them first: between MULTI and EXEC there is no way back.
    guard hasRoom(commands: words.count, bytes: words.reduce(0) { $0 + Self.size($1) }) else {
      return Self.tooManyInFlight
    }
    let patience = batch.commands.map(\.deadline).max() ?? RedisLink.standardDeadline
    for word in words.dropLast() {
      // These are answered with QUEUED, or with an error, because of which EXEC fails. What is refused here is refused
      // because the connection ends, and EXEC is refused, too.
      if let refusal = send(word, patience: patience, completion: { _ in }) { return refusal }
    }
    return send(["EXEC"], patience: patience) { batch.complete($0) }
  }

  /// Ends the connection; every command under way is answered with `error`.
  func close(_ error: RedisError) {
    guard let context = unsafe context else { return }
    begin(failure: error)
    // Inside one of its callbacks hiredis only notes this, and frees after the callback.
    unsafe redisAsyncFree(context)
  }

  private func begin(failure error: RedisError) {
    guard failure == nil else { return }
    failure = error
    handlers?.failing(error)
  }

  private static func replied(
    _ context: UnsafeMutablePointer<redisAsyncContext>?, _ reply: UnsafeMutableRawPointer?,
    _ holder: UnsafeMutableRawPointer?
  ) {
    guard let holder = unsafe holder else { return }
    // SAFETY: the one release for the retain in `send`; hiredis calls back once for each command.
    let command = unsafe Unmanaged<PendingCommand>.fromOpaque(holder).takeRetainedValue()
    let connection = command.connection
    if let reply = unsafe reply {
      let copy = unsafe RedisReply(copying: UnsafePointer(reply.assumingMemoryBound(to: redisReply.self)))
      connection.answered(command, .success(copy))
    } else {
      if let context = unsafe context { connection.begin(failure: unsafe error(of: context, .connectionLost)) }
      let error = connection.failure ?? RedisError(.connectionLost, "the connection to Redis went")
      connection.answered(command, .failure(error))
    }
  }

  private func answered(_ command: PendingCommand, _ result: Result<RedisReply, RedisError>) {
    precondition(inFlight[firstInFlight] === command, "replies come in the order of their commands")
    inFlight[firstInFlight] = nil
    firstInFlight += 1
    inFlightBytes -= command.size
    lastReply = loop.now
    // Moved together now and then, so that a queue that is never empty does not grow.
    if firstInFlight == inFlight.count || firstInFlight >= 1024 {
      inFlight.removeFirst(firstInFlight)
      firstInFlight = 0
    }
    command.complete(result)
  }

  private func deadlineCame() {
    // A loop that was late may have replies waiting, and come here first.
    if let context = unsafe context { unsafe redisAsyncHandleRead(context) }
    guard let deadlines else { return }
    let now = loop.now
    for command in underWay where command.isOpen && command.deadline <= now {
      command.complete(.failure(RedisError(.timedOut, "Redis did not answer in time")))
    }
    // A completion may have ended it all.
    guard failure == nil else { return }
    var next = underWay.filter(\.isOpen).map(\.deadline).min() ?? .never
    // Redis answers in order, so everything waits behind the oldest. While others are answered it is only slow: given
    // up, it would have everything to do again.
    if let oldest = underWay.first {
      let stall = max(oldest.deadline, lastReply + oldest.patience)
      guard now < stall else {
        handlers?.stalled()
        return
      }
      next = min(next, stall)
    }
    deadlines.arm(at: next)
  }

  private var underWay: [PendingCommand] { inFlight[firstInFlight...].compactMap { $0 } }

  // MARK: What hiredis asks for

  private static func of(_ owner: UnsafeMutableRawPointer?) -> RedisConnection {
    // SAFETY: `ev.data`, held until the clean-up hook.
    unsafe Unmanaged<RedisConnection>.fromOpaque(owner.unsafelyUnwrapped).takeUnretainedValue()
  }

  private func setInterest(reading: Bool? = nil, writing: Bool? = nil) {
    isReading = reading ?? isReading
    isWriting = writing ?? isWriting
    watch?.watch(readable: isReading, writable: isWriting)
  }

  private func ready(readable: Bool, writable: Bool) {
    // Either call may end the context: `context` is looked at again before the second.
    if readable, let context = unsafe context { unsafe redisAsyncHandleRead(context) }
    if writable, let context = unsafe context { unsafe simp_redis_handle_write(context) }
  }

  private func contextIsGoing() {
    if let context = unsafe context { begin(failure: unsafe Self.error(of: context, .connectionLost)) }
    unsafe context = nil
    watch?.close()
    watch = nil
    deadlines?.close()
    deadlines = nil
    let handlers = handlers
    self.handlers = nil
    handlers?.closed()
  }

  // MARK: Helpers around C

  private static func error(
    of context: UnsafeMutablePointer<redisAsyncContext>, _ code: RedisError.Code
  ) -> RedisError {
    let systemCode = unsafe context.pointee.c.err == REDIS_ERR_IO ? errno : 0
    // Before the first connect succeeded a failure is one of connecting.
    let wasConnected = unsafe context.pointee.c.flags & REDIS_CONNECTED != 0
    let text = unsafe withUnsafePointer(to: &context.pointee.c.errstr) { pointer in
      unsafe pointer.withMemoryRebound(to: CChar.self, capacity: 128) { unsafe String(cString: $0) }
    }
    return RedisError(
      wasConnected ? code : .cannotConnect, text.isEmpty ? "the connection was closed" : text, systemCode: systemCode)
  }

  /// Lays the words out in one buffer and gives their places to `body`.
  private static func withWords(
    _ arguments: [RedisArgument],
    _ body: (Int32, UnsafeMutablePointer<UnsafePointer<CChar>?>?, UnsafePointer<Int>?) -> Int32
  ) -> Int32 {
    let lengths = arguments.map(\.bytes.count)
    let bytes = arguments.flatMap(\.bytes) + [0]
    return unsafe bytes.withUnsafeBytes { buffer in
      var words: [UnsafePointer<CChar>?] = unsafe []
      var offset = 0
      for length in lengths {
        let start = unsafe buffer.baseAddress.map { unsafe ($0 + offset).assumingMemoryBound(to: CChar.self) }
        unsafe words.append(start)
        offset += length
      }
      return unsafe body(Int32(lengths.count), &words, lengths)
    }
  }
}
