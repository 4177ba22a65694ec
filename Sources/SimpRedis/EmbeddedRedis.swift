internal import Glibc
public import SimpCore
public import SimpIO

/// A private redis-server in a state directory: started, or taken over where one from an earlier run still answers, and
/// started again when it dies.
///
/// It listens on `DIRECTORY/redis/redis.sock` only (mode 700), and writes every change to its append-only file before it
/// answers. It is a process of its own that outlives a killed parent, so nothing is lost with the parent, and the next
/// one takes it over. On its loop's thread only. One at a time a directory: the caller holds the directory's lock.
public final class EmbeddedRedis {
  /// What happens to the server, for the log.
  public enum Event: Sendable, Equatable, CustomStringConvertible {
    /// One that an earlier run left is used.
    case adopted
    case started(pid: Int32)
    /// It ended, or the adopted one no longer answers. The next is started after `wait`.
    case died(reason: String, wait: Interval)
    /// It could not be started; the next attempt is after `wait`.
    case cannotStart(RedisError, wait: Interval)

    public var description: String {
      switch self {
      case .adopted: "uses the one that an earlier run left"
      case .started(let pid): "started as process \(pid)"
      case .died(let reason, let wait): "\(reason); started again in \(Int(wait.milliseconds)) ms"
      case .cannotStart(let error, let wait): "\(error); tried again in \(Int(wait.milliseconds)) ms"
      }
    }
  }

  /// Where it listens; good for `RedisLink`, also while it is down.
  public let address: RedisAddress

  /// The wait before it is started again: the first one, doubling up to the longest while it dies within 10 s.
  public static let shortestWait = Interval.milliseconds(100)
  public static let longestWait = Interval.seconds(5)
  /// How long the first start may take; a large append-only file is loaded at some 100 MB a second.
  public static let startDeadline = Interval.seconds(60)
  /// How long a stop may take before the server is killed, which loses nothing that it answered.
  public static let stopDeadline = Interval.seconds(5)

  let files: EmbeddedRedisFiles
  private let loop: EventLoop
  private let searchPath: String?
  private let onEvent: (Event) -> Void

  private var link: RedisLink?
  private var child: ChildProcess?
  private var adoptedPid: Int32?
  private var restart: LoopTimer?
  private var deadline: LoopTimer?
  private var wait = shortestWait
  private var upSince: Instant?
  private var started: ((Result<RedisAddress, RedisError>) -> Void)?
  private var stopped: [() -> Void] = []
  private var isStopping = false

  /// - Parameters:
  ///   - directory: the state directory; it must exist. `redis` is made in it with mode 700.
  ///   - maximumMemoryBytes: of what it keeps, beyond which it refuses to keep more; 0: no limit. One that is taken over is
  ///     told.
  ///   - searchPath: where redis-server is looked for, as PATH is written; nil for the process's own PATH.
  ///   - onEvent: called on the loop.
  public init(
    loop: EventLoop, directory: String, maximumMemoryBytes: Int = 0, searchPath: String? = nil,
    onEvent: @escaping (Event) -> Void = { _ in }
  ) {
    self.loop = loop
    files = EmbeddedRedisFiles(stateDirectory: directory, maximumMemoryBytes: maximumMemoryBytes)
    address = .unix(path: files.socket)
    self.searchPath = searchPath
    self.onEvent = onEvent
  }

  /// The server's process, nil while there is none or an adopted one has not told yet.
  public var pid: Int32? { child?.pid ?? adoptedPid }

  /// Takes over the server that answers in the directory, or starts one.
  ///
  /// - Parameter completion: called once, from a later turn: with the address when the server answers, or with an error
  ///   that names the remedy (program not installed, path too long, directory not writable). After an error nothing
  ///   runs, and `start` may be called again.
  public func start(completion: @escaping (Result<RedisAddress, RedisError>) -> Void) {
    loop.preconditionCurrent()
    precondition(link == nil, "an embedded Redis is started once")
    isStopping = false
    started = completion
    restart = loop.makeTimer { [unowned self] in self.launch() }
    deadline = loop.makeTimer { [unowned self] in self.deadlineCame() }
    let link = RedisLink(loop: loop, address: address)
    self.link = link
    do throws(RedisError) {
      try files.prepare()
    } catch {
      link.refuse(error) { [weak self] error in self?.fail(error) }
      return
    }
    link.onUp = { [unowned self] in self.isUp() }
    link.onDown = { [unowned self] error in self.isDown(error) }
    link.onAttemptFailed = { [unowned self] error in self.attemptFailed(error) }
    deadline?.arm(at: loop.now + Self.startDeadline)
    link.start()
  }

  /// Shuts the server down and waits for its end.
  ///
  /// - Parameter completion: called once when it has ended; from inside this call when nothing runs.
  public func stop(completion: @escaping () -> Void = {}) {
    loop.preconditionCurrent()
    guard let link else {
      completion()
      return
    }
    stopped.append(completion)
    guard !isStopping else { return }
    isStopping = true
    restart?.disarm()
    deadline?.arm(at: loop.now + Self.stopDeadline)
    if link.isUp {
      // The connection ends without a reply when it works; what comes then tells of the end.
      link.command(["SHUTDOWN"], deadline: Self.stopDeadline) { [weak self] result in
        if case .success = result { self?.signal(SIGTERM) }
      }
    } else if child != nil || adoptedPid != nil {
      signal(SIGTERM)
    } else {
      finish()
    }
  }

  /// Lets go of the server, which goes on running, as when the process dies.
  func abandon() {
    started = nil
    release()
  }

  // MARK: What the link tells

  private func isUp() {
    upSince = loop.now
    deadline?.disarm()
    if let child {
      onEvent(.started(pid: child.pid))
    } else {
      onEvent(.adopted)
      askPid()
      link?.command(["CONFIG", "SET", "maxmemory", RedisArgument(files.maximumMemoryBytes)]) { _ in }
    }
    if isStopping {
      isStopping = false
      stop(completion: {})
      return
    }
    let started = started
    self.started = nil
    started?(.success(address))
  }

  private func askPid() {
    link?.command(["INFO", "server"]) { [weak self] result in
      guard case .success(let reply) = result, let text = reply.text else { return }
      let line = text.split(whereSeparator: \.isNewline).first { $0.hasPrefix("process_id:") }
      self?.adoptedPid = line.flatMap { Int32($0.dropFirst("process_id:".count)) }
    }
  }

  private func isDown(_ error: RedisError) {
    // A child tells of its end by itself; of an adopted server the next attempt to connect tells.
    if isStopping, child == nil, adoptedPid == nil { finish() }
  }

  private func attemptFailed(_ error: RedisError) {
    // Nobody listens. Any other failure may be a server that is stopped or busy, and a second one beside it would
    // write to the same file.
    guard child == nil, error.systemCode == ECONNREFUSED || error.systemCode == ENOENT else { return }
    if isStopping {
      finish()
    } else if upSince != nil {
      died("it no longer answers")
    } else if started != nil {
      launch()
    }
  }

  // MARK: The process

  private func launch() {
    guard child == nil, !isStopping, let link, !link.isUp else { return }
    do throws(RedisError) {
      let program = try files.program(searchPath: searchPath ?? EmbeddedRedisFiles.processPath)
      child = try startChild(program)
    } catch {
      if started != nil {
        fail(error)
      } else {
        let wait = nextWait()
        onEvent(.cannotStart(error, wait: wait))
        restart?.arm(at: loop.now + wait)
      }
    }
  }

  private func startChild(_ program: String) throws(RedisError) -> ChildProcess {
    do throws(IOError) {
      return try ChildProcess(
        loop: loop, program: program, arguments: files.arguments, output: .file(files.log)
      ) { [weak self] status in self?.childEnded(status) }
    } catch {
      throw RedisError(.cannotStart, "\(error)", systemCode: error.code)
    }
  }

  private func childEnded(_ status: ChildProcess.Status) {
    child = nil
    let reason = status.signal != 0 ? "ended by signal \(status.signal)" : "ended with exit code \(status.code)"
    if isStopping {
      finish()
    } else if started != nil {
      fail(RedisError(.cannotStart, "redis-server \(reason) before it answered; \(files.log) says why"))
    } else {
      died(reason)
    }
  }

  private func died(_ reason: String) {
    adoptedPid = nil
    if let upSince, loop.now - upSince > .seconds(10) { wait = Self.shortestWait }
    upSince = nil
    let wait = nextWait()
    onEvent(.died(reason: reason, wait: wait))
    restart?.arm(at: loop.now + wait)
  }

  private func nextWait() -> Interval {
    let now = wait
    wait = min(wait * 2, Self.longestWait)
    return now
  }

  private func signal(_ signal: Int32) {
    if let child {
      child.kill(signal)
    } else if let adoptedPid {
      kill(adoptedPid, signal)
    }
  }

  // MARK: The end

  private func deadlineCame() {
    if isStopping {
      signal(SIGKILL)
      // Its end is told by the child, or by the socket where nobody listens any more. A process that does not even
      // die of this cannot be waited for.
      if child == nil { finish() }
    } else {
      let seconds = Self.startDeadline.nanoseconds / 1_000_000_000
      let last = link?.lastError.map { " (\($0))" } ?? ""
      fail(RedisError(.cannotStart, "redis-server did not answer within \(seconds) s\(last); \(files.log) may say why"))
    }
  }

  private func fail(_ error: RedisError) {
    child?.kill(SIGTERM)
    let started = started
    self.started = nil
    release()
    started?(.failure(error))
  }

  private func finish() {
    let stopped = stopped
    self.stopped = []
    release()
    for completion in stopped { completion() }
  }

  private func release() {
    let link = link
    self.link = nil
    link?.onUp = nil
    link?.onDown = nil
    link?.onAttemptFailed = nil
    link?.stop()
    child?.close()
    child = nil
    adoptedPid = nil
    upSince = nil
    restart?.close()
    restart = nil
    deadline?.close()
    deadline = nil
    isStopping = false
    wait = Self.shortestWait
  }
}
