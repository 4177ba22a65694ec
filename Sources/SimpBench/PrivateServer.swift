internal import Glibc
internal import SimpAccess
internal import SimpIO
internal import SimpSupport
internal import SimpToken

/// A simp-server with a Redis of its own, in a directory of its own, on ports that were free; gone after the run.
///
/// `@unchecked Sendable`: `process` is touched on `loop` only, the rest is constant or locked.
final class PrivateServer: @unchecked Sendable {
  /// Why a private server could not be had.
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  // The processes to end when this one has to exit at once, by their directories; 0 where one was killed.
  private static let running = Locked<[String: Int32]>([:])

  /// What a run wants of its server.
  struct Options: Sendable {
    var isEncrypted = true
    /// The ports of each start; 0: any.
    var ports: (tcp: UInt16, udp: UInt16) = (0, 0)
    /// `NAME=value`, beside what it gets anyway; replaces one of the same name.
    var environment: [String] = []
    /// Where to keep the logs, a file for each start; nil: in the server's directory, gone with it.
    var logs: String?
    var logLevel = "warn"
  }

  private let loop: EventLoop
  private let options: Options
  /// State and, unless the options say otherwise, logs. Removed in the end.
  let directory: String
  private var process: ChildProcess?
  private let ended = Locked<ChildProcess.Status?>(nil)
  private var starts = 0
  /// Without the server itself: it would keep itself for ever.
  private var reached: Place

  /// Where it is reached, once it is launched.
  var place: Place {
    var place = reached
    place.server = self
    return place
  }

  private init(loop: EventLoop, directory: String, place: Place, options: Options) {
    self.loop = loop
    self.directory = directory
    reached = place
    self.options = options
  }

  /// Ends all of them without waiting; for an exit at once.
  static func abandonAll() {
    for (directory, pid) in running.withLock({ $0 }) {
      if pid > 0 {
        kill(pid, SIGTERM)
        // One that was stopped hears it only then.
        kill(pid, SIGCONT)
      } else if let pid = redisProcess(in: directory) {
        kill(pid, SIGKILL)
      }
    }
  }

  /// Starts the simp-server that lies beside this program.
  static func start(_ options: Options) async throws -> PrivateServer {
    let loop = try EventLoop()
    loop.startThread(name: "server")
    let directory = try makeDirectory()
    let server = PrivateServer(
      loop: loop, directory: directory,
      place: Place(
        address: "", key: TokenKey(secret: [UInt8](repeating: 0, count: 32)), trust: .off(evenBeyondLoopback: false),
        pid: nil), options: options)
    do {
      try await server.launch()
      return server
    } catch {
      await server.stop()
      throw error
    }
  }

  /// Starts the program, for the first time or after it ended, and waits until it is ready.
  func launch() async throws {
    starts += 1
    let pid = try await startProgram()
    let address = try await waitUntilReady()
    guard starts == 1 else { return }
    let state = "\(directory)/state"
    let trust: TrustSettings =
      options.isEncrypted
      ? .pin(try FileContents.firstLine(path: "\(state)/server.pin")) : .off(evenBeyondLoopback: false)
    reached = Place(
      address: address, key: try TokenKey.load(path: "\(state)/signing.key"), trust: trust, pid: pid)
  }

  /// Sends a signal, if it runs.
  ///
  /// - Returns: the process it went to.
  func signal(_ number: Int32) async -> Int32? {
    await onLoop { server in
      guard let process = server.process, process.status == nil else { return nil }
      process.kill(number)
      return process.pid
    }
  }

  /// As if the power were cut for this process alone; its Redis lives on. Waits for its end.
  func killAtOnce() async {
    Self.running.withLock { $0[directory] = 0 }
    _ = await signal(SIGKILL)
    _ = await waitForEnd(attempts: 1000)
  }

  /// Its Redis, also one whose server was killed: those who have the socket's path in their title, which is nobody
  /// else's, and not the children that Redis makes to write its file anew.
  var redisProcess: Int32? { Self.redisProcess(in: directory) }

  private static func redisProcess(in directory: String) -> Int32? {
    let found = ProcessUsage.all.filter { ProcessUsage.commandLine($0).contains("\(directory)/state/redis/redis.sock") }
    return found.first { pid in !found.contains { $0 == ProcessUsage.parent(of: pid) } }
  }

  /// Ends the server and removes its directory. Waits for both, also in a cancelled task.
  func stop() async {
    await onLoop { server in server.process?.kill(SIGTERM) }
    if await !waitForEnd(attempts: 1000) {
      await onLoop { server in server.process?.kill(SIGKILL) }
      _ = await waitForEnd(attempts: 200)
    }
    Self.running.withLock { $0[directory] = nil }
    // One that was killed could not end its Redis.
    if let pid = redisProcess { kill(pid, SIGKILL) }
    await remove()
    loop.close()
  }

  private var log: String { "\(options.logs ?? directory)/server-\(starts).log" }

  private func startProgram() async throws -> Int32 {
    let arguments = [
      "--tls", options.isEncrypted ? "on" : "off", "--port", "\(options.ports.tcp)", "--udp-port",
      "\(options.ports.udp)", "--state", "\(directory)/state", "--redis", "embedded", "--log-level", options.logLevel,
      // What is measured is the server, not how much it lets one user have.
      "--messages-per-second", "0", "--bytes-per-second", "0",
    ]
    let (program, log, environment) = (Self.beside("simp-server"), log, Self.environment(options.environment))
    // An earlier run's, kept on purpose: its ready line is not this one's.
    unsafe unlink(log)
    ended.withLock { $0 = nil }
    let result: Result<Int32, IOError> = await withCheckedContinuation { continuation in
      loop.execute { [self] in
        do throws(IOError) {
          // An environment of its own: settings of the user's server are not for this one.
          let started = try ChildProcess(
            loop: loop, program: program, arguments: arguments, environment: environment,
            output: .file(log)
          ) { [ended] status in ended.withLock { $0 = status } }
          process = started
          Self.running.withLock { $0[directory] = started.pid }
          continuation.resume(returning: .success(started.pid))
        } catch {
          continuation.resume(returning: .failure(error))
        }
      }
    }
    switch result {
    case .success(let pid): return pid
    case .failure(let error):
      throw Failure(description: "no private server: \(error)\nbuild it: swift build -c release --product simp-server")
    }
  }

  /// The address in the server's ready line.
  private func waitUntilReady() async throws -> String {
    for _ in 0..<1500 {
      let log = (try? FileContents.read(path: log, maximumBytes: 1 << 24)) ?? []
      let text = String(decoding: log, as: UTF8.self)
      for line in text.split(separator: "\n") where line.hasPrefix("simp-server ready: TCP ") {
        return String(line.dropFirst("simp-server ready: TCP ".count).prefix { $0 != "," })
      }
      if ended.withLock({ $0 }) != nil { throw Failure(description: "the private server ended:\n\(text)") }
      try await Task.sleep(for: .milliseconds(20))
    }
    throw Failure(description: "the private server is not ready within 30 s")
  }

  private func waitForEnd(attempts: Int) async -> Bool {
    for _ in 0..<attempts {
      if ended.withLock({ $0 }) != nil { return true }
      if await onLoop({ $0.process == nil }) { return true }
      await pause()
    }
    return false
  }

  /// 10 ms, also in a cancelled task.
  private func pause() async { await Task.detached { try? await Task.sleep(for: .milliseconds(10)) }.value }

  private func remove() async {
    let isDone = Locked(false)
    await onLoop { server in
      server.process = try? ChildProcess(loop: server.loop, program: "rm", arguments: ["-rf", server.directory]) { _ in
        isDone.withLock { $0 = true }
      }
      if server.process == nil { isDone.withLock { $0 = true } }
    }
    while !isDone.withLock({ $0 }) { await pause() }
  }

  @discardableResult
  private func onLoop<Value: Sendable>(_ body: @escaping @Sendable (PrivateServer) -> Value) async -> Value {
    await withCheckedContinuation { continuation in
      loop.execute { continuation.resume(returning: body(self)) }
    }
  }

  /// What its programs get of our own environment, and `more`.
  static func environment(_ more: [String]) -> [String] {
    let names = [
      "PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD",
      // What was built for a sanitizer ends as its options say.
      "TSAN_OPTIONS", "ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS",
    ]
    return names.compactMap { name in
      guard !more.contains(where: { $0.hasPrefix("\(name)=") }) else { return nil }
      return Settings.processEnvironment(name).map { "\(name)=\($0)" }
    } + more
  }

  static func makeDirectory() throws -> String {
    let root = Settings.processEnvironment("TMPDIR") ?? "/tmp"
    var template = Array("\(root)/simp-bench-XXXXXX".utf8CString)
    // SAFETY: the template is a C string that mkdtemp fills in place.
    let isMade = unsafe template.withUnsafeMutableBufferPointer { unsafe mkdtemp($0.baseAddress!) != nil }
    guard isMade else { throw Failure(description: "\(root): cannot make a directory: \(SystemText.of(errno))") }
    return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// The program of that name in the directory of this one.
  static func beside(_ name: String) -> String {
    var buffer = [CChar](repeating: 0, count: 4096)
    // SAFETY: at most `buffer.count` bytes are written into `buffer`.
    let count = unsafe buffer.withUnsafeMutableBufferPointer { buffer in
      unsafe readlink("/proc/self/exe", buffer.baseAddress!, buffer.count)
    }
    let own = String(decoding: buffer.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return own.lastIndex(of: "/").map { own[...$0] + name } ?? name
  }
}
