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

  // The processes to end when this one has to exit at once.
  private static let running = Locked<Set<Int32>>([])

  private let loop: EventLoop
  private let directory: String
  private var process: ChildProcess?
  private let ended = Locked<ChildProcess.Status?>(nil)
  private(set) var place: Place

  private init(loop: EventLoop, directory: String, place: Place) {
    self.loop = loop
    self.directory = directory
    self.place = place
  }

  /// Ends all of them without waiting; for an exit at once.
  static func abandonAll() {
    for pid in running.withLock({ $0 }) { kill(pid, SIGTERM) }
  }

  /// Starts the simp-server that lies beside this program.
  static func start(isEncrypted: Bool) async throws -> PrivateServer {
    let loop = try EventLoop()
    loop.startThread(name: "server")
    let directory = try makeDirectory()
    let server = PrivateServer(
      loop: loop, directory: directory,
      place: Place(
        address: "", key: TokenKey(secret: [UInt8](repeating: 0, count: 32)), trust: .off(evenBeyondLoopback: false),
        pid: nil))
    do {
      let pid = try await server.launch(program: beside("simp-server"), isEncrypted: isEncrypted)
      let address = try await server.waitUntilReady()
      let state = "\(directory)/state"
      let trust: TrustSettings =
        isEncrypted ? .pin(try FileContents.firstLine(path: "\(state)/server.pin")) : .off(evenBeyondLoopback: false)
      server.place = Place(
        address: address, key: try TokenKey.load(path: "\(state)/signing.key"), trust: trust, pid: pid)
      return server
    } catch {
      await server.stop()
      throw error
    }
  }

  /// Ends the server and removes its directory. Waits for both, also in a cancelled task.
  func stop() async {
    await onLoop { server in server.process?.kill(SIGTERM) }
    if await !waitForEnd(attempts: 1000) {
      await onLoop { server in server.process?.kill(SIGKILL) }
      _ = await waitForEnd(attempts: 200)
    }
    if let pid = place.pid { _ = Self.running.withLock { $0.remove(pid) } }
    await remove()
    loop.close()
  }

  private func launch(program: String, isEncrypted: Bool) async throws -> Int32 {
    let arguments = [
      "--tls", isEncrypted ? "on" : "off", "--port", "0", "--udp-port", "0", "--state", "\(directory)/state", "--redis",
      "embedded", "--log-level", "warn",
      // What is measured is the server, not how much it lets one user have.
      "--messages-per-second", "0", "--bytes-per-second", "0",
    ]
    let result: Result<Int32, IOError> = await withCheckedContinuation { continuation in
      loop.execute { [self] in
        do throws(IOError) {
          // An environment of its own: settings of the user's server are not for this one.
          let started = try ChildProcess(
            loop: loop, program: program, arguments: arguments, environment: Self.environment,
            output: .file("\(directory)/log")
          ) { [ended] status in ended.withLock { $0 = status } }
          process = started
          _ = Self.running.withLock { $0.insert(started.pid) }
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
      let log = (try? FileContents.read(path: "\(directory)/log", maximumBytes: 1 << 20)) ?? []
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

  private static var environment: [String] {
    ["PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD"].compactMap { name in
      Settings.processEnvironment(name).map { "\(name)=\($0)" }
    }
  }

  private static func makeDirectory() throws -> String {
    let root = Settings.processEnvironment("TMPDIR") ?? "/tmp"
    var template = Array("\(root)/simp-bench-XXXXXX".utf8CString)
    // SAFETY: the template is a C string that mkdtemp fills in place.
    let isMade = unsafe template.withUnsafeMutableBufferPointer { unsafe mkdtemp($0.baseAddress!) != nil }
    guard isMade else { throw Failure(description: "\(root): cannot make a directory: \(SystemText.of(errno))") }
    return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// The program of that name in the directory of this one.
  private static func beside(_ name: String) -> String {
    var buffer = [CChar](repeating: 0, count: 4096)
    // SAFETY: at most `buffer.count` bytes are written into `buffer`.
    let count = unsafe buffer.withUnsafeMutableBufferPointer { buffer in
      unsafe readlink("/proc/self/exe", buffer.baseAddress!, buffer.count)
    }
    let own = String(decoding: buffer.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return own.lastIndex(of: "/").map { own[...$0] + name } ?? name
  }
}
