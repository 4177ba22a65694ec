internal import Glibc
internal import SimpCore
internal import SimpIO
internal import SimpSupport

/// A process of clients with stores, which may be killed at any instant and started again. What its users saw it writes
/// to a file, each line before what follows from it; here that file is read as it grows.
///
/// `@unchecked Sendable`: `process` and `tail` are touched on `loop` only, the rest is constant or locked.
final class ClientProcess: @unchecked Sendable {
  let home: Int
  private let loop: EventLoop
  private let directory: String
  private let arguments: [String]
  private let environment: [String]
  private let recorder: HistoryRecorder
  private var process: ChildProcess?
  private var tail: LineTail?
  /// The lives that have begun and not ended, by device, and the highest of all so far.
  private var lives: [UInt32: UInt32] = [:]
  private var lastLife: UInt32 = 0
  private let ended = Locked<ChildProcess.Status?>(nil)

  /// - Parameters:
  ///   - directory: where stores, history and log of its users are.
  ///   - arguments: of `verify-client`, all but its lives.
  init(
    home: Int, loop: EventLoop, directory: String, arguments: [String], clock: FalseClock?,
    recorder: HistoryRecorder
  ) {
    self.home = home
    self.loop = loop
    self.directory = directory
    self.arguments = arguments
    environment = PrivateServer.environment(clock?.environment ?? [])
    self.recorder = recorder
  }

  private var history: String { "\(directory)/client-\(home).history" }
  private var log: String { "\(directory)/client-\(home).log" }

  func start() async throws {
    let failure: String? = await onLoop { client in
      do {
        if client.tail == nil {
          _ = try HistoryFile(path: client.history, isNew: true)
          client.tail = try LineTail(path: client.history)
        }
        client.ended.withLock { $0 = nil }
        client.process = try ChildProcess(
          loop: client.loop, program: PrivateServer.beside("simp-bench"),
          arguments: ["verify-client"] + client.arguments + [
            "--home", "\(client.home)", "--life", "\(client.lastLife)", "--history", client.history,
          ], environment: client.environment, output: .file(client.log)
        ) { [ended = client.ended] status in ended.withLock { $0 = status } }
        return nil
      } catch {
        return "\(error)"
      }
    }
    if let failure { throw HistoryFile.Failure(description: "no process of clients: \(failure)") }
  }

  /// Kills it, and notes the end of its users' lives behind all that they wrote.
  func killAtOnce() async {
    await onLoop { $0.process?.kill(SIGKILL) }
    await waitForEnd(.seconds(20))
    await poll()
    await onLoop { client in
      for (device, life) in client.lives.sorted(by: { $0.key < $1.key }) {
        client.recorder.record(.over(device: device, life: life, isKilled: true))
      }
      client.lives = [:]
    }
  }

  /// Takes over what was written since.
  func poll() async {
    await onLoop { client in
      try? client.tail?.read { client.note(client.recorder.take($0)) }
    }
  }

  private func note(_ event: HistoryEvent?) {
    switch event?.what {
    case .life(let device, let life):
      lives[device] = life
      lastLife = max(lastLife, life)
    case .over(let device, _, _): lives[device] = nil
    default: break
    }
  }

  /// Waits until it ends by itself, or kills it.
  func waitForEnd(_ patience: Duration) async {
    let deadline = Clock.now + Interval(patience)
    while ended.withLock({ $0 }) == nil, Clock.now < deadline { await VerifyUser.pause(.milliseconds(5)) }
    if ended.withLock({ $0 }) == nil { await onLoop { $0.process?.kill(SIGKILL) } }
  }

  func close() async {
    await onLoop { client in
      client.process?.close()
      client.tail?.close()
      client.tail = nil
    }
  }

  /// What it ended with, and said, if that was not good.
  var failure: String? {
    guard let status = ended.withLock({ $0 }), status.code != 0, status.signal == 0 else { return nil }
    let said = (try? FileContents.read(path: log, maximumBytes: 1 << 20)) ?? []
    return "client process \(home) ended with \(status.code): " + String(decoding: said.suffix(500), as: UTF8.self)
  }

  @discardableResult
  private func onLoop<Value: Sendable>(_ body: @escaping @Sendable (ClientProcess) -> Value) async -> Value {
    await withCheckedContinuation { continuation in
      loop.execute { continuation.resume(returning: body(self)) }
    }
  }
}
