import Glibc
import SimpCore
import SimpIO
import Testing

@testable import SimpRedis

/// An embedded Redis on the loop of a rig whose link leads to it.
final class EmbeddedRig: @unchecked Sendable {
  let directory: TemporaryDirectory
  let rig: RedisRig
  /// Touched on the loop only.
  private(set) var onLoop: EmbeddedRedis!
  private var happened: [EmbeddedRedis.Event] = []

  init(directory: TemporaryDirectory, searchPath: String? = nil) async throws {
    self.directory = directory
    rig = try RedisRig(address: .unix(path: "\(directory.path)/redis/redis.sock"))
    await rig.run { rig in
      self.onLoop = EmbeddedRedis(loop: rig.loop, directory: directory.path, searchPath: searchPath) { event in
        self.happened.append(event)
      }
    }
  }

  func start() async throws -> Result<RedisAddress, RedisError> {
    try await rig.wait { _, done in self.onLoop.start(completion: done) }
  }

  func startWithLink() async throws {
    let address = try await start().get()
    #expect(address == .unix(path: "\(directory.path)/redis/redis.sock"))
    try await rig.startAndWait()
  }

  func stop() async throws {
    let _: Bool = try await rig.wait { _, done in self.onLoop.stop { done(true) } }
  }

  func abandon() async {
    await rig.run { _ in self.onLoop.abandon() }
    await close()
  }

  /// The server's process, also of an adopted one, which tells it after a while.
  func pid() async throws -> pid_t {
    try await rig.until { _ in self.onLoop.pid != nil }
    return await rig.run { _ in self.onLoop.pid ?? 0 }
  }

  func events() async -> [EmbeddedRedis.Event] { await rig.run { _ in self.happened } }

  func close() async {
    await rig.run { _ in self.onLoop = nil }
    await rig.close()
  }
}

@Suite(.serialized) struct EmbeddedTests {
  @Test(arguments: ["", "/with space and \"quotes\" # é"])
  func startAndStop(suffix: String) async throws {
    let rig = try await EmbeddedRig(directory: TemporaryDirectory(suffix: suffix))
    try await rig.startWithLink()
    let pid = try await rig.pid()
    #expect(await rig.events() == [.started(pid: pid)])
    for (name, value) in [
      ("appendonly", "yes"), ("appendfsync", "always"), ("save", ""), ("port", "0"), ("maxmemory-policy", "noeviction"),
      ("dir", "\(rig.directory.path)/redis"),
    ] {
      let reply = try await rig.rig.command(["CONFIG", "GET", RedisArgument(name)])
      #expect(reply.elements?.last?.text == value, "\(name)")
    }
    #expect(mode("\(rig.directory.path)/redis") == 0o700)
    #expect(mode("\(rig.directory.path)/redis/redis.sock") == 0o700)
    // A session of its own: what ends the terminal's or the parent's does not reach it.
    #expect(getsid(pid) == pid)

    try await rig.stop()
    #expect(kill(pid, 0) == -1 && errno == ESRCH)
    #expect(mode("\(rig.directory.path)/redis/redis.sock") == nil)
    await rig.close()
  }

  @Test func theNextRunTakesItOver() async throws {
    let directory = TemporaryDirectory()
    let first = try await EmbeddedRig(directory: directory)
    try await first.startWithLink()
    let pid = try await first.pid()
    #expect(try await first.rig.command(["SET", "k", "kept"]) == .status("OK"))
    await first.abandon()
    #expect(kill(pid, 0) == 0)

    let second = try await EmbeddedRig(directory: directory)
    try await second.startWithLink()
    #expect(await second.events() == [.adopted])
    #expect(try await second.pid() == pid)
    #expect(try await second.rig.command(["GET", "k"]).text == "kept")
    try await second.stop()
    #expect(try await second.rig.wait { _, done in done(Self.isGone(pid)) } as Bool)
    await second.close()
  }

  @Test func aKilledServerIsStartedAgain() async throws {
    let rig = try await EmbeddedRig(directory: TemporaryDirectory())
    try await rig.startWithLink()
    let first = try await rig.pid()
    #expect(try await rig.rig.command(["SET", "k", "kept"]) == .status("OK"))
    kill(first, SIGKILL)
    try await rig.rig.until { !$0.link.isUp }
    try await rig.rig.until { $0.link.isUp }
    let second = try await rig.pid()
    #expect(second != first)
    #expect(try await rig.rig.command(["GET", "k"]).text == "kept")
    try await rig.rig.until { _ in rig.onLoop.pid == second }
    #expect(
      await rig.events().prefix(2)
        == [.started(pid: first), .died(reason: "ended by signal 9", wait: EmbeddedRedis.shortestWait)])
    try await rig.stop()
    await rig.close()
  }

  @Test func anAdoptedServerThatDiesIsStartedAgain() async throws {
    let directory = TemporaryDirectory()
    let first = try await EmbeddedRig(directory: directory)
    try await first.startWithLink()
    await first.abandon()
    let second = try await EmbeddedRig(directory: directory)
    try await second.startWithLink()
    let pid = try await second.pid()
    kill(pid, SIGKILL)
    try await second.rig.until { _ in second.onLoop.pid != nil && second.onLoop.pid != pid }
    try await second.rig.until { $0.link.isUp }
    #expect(try await second.rig.command(["PING"]) == .status("PONG"))
    try await second.stop()
    await second.close()
  }

  @Test func noSecondServerBesideAStoppedOne() async throws {
    let rig = try await EmbeddedRig(directory: TemporaryDirectory())
    try await rig.startWithLink()
    let pid = try await rig.pid()
    kill(pid, SIGSTOP)
    let next = try await EmbeddedRig(directory: rig.directory)
    await next.rig.run { _ in
      next.onLoop.start { result in next.rig.values["started"] = (try? result.get()) != nil }
    }
    // Its first attempts find a socket that accepts and says nothing.
    await next.rig.run { $0.link.start() }
    try await next.rig.until { $0.link.lastError?.code == .connectionLost }
    #expect(await next.events() == [])
    #expect(await next.rig.run { _ in next.onLoop.pid } == nil)
    kill(pid, SIGCONT)
    try await next.rig.until { $0.values["started"] as? Bool == true }
    #expect(await next.events() == [.adopted])
    await next.abandon()
    try await rig.rig.until { $0.link.isUp }
    #expect(await rig.events() == [.started(pid: pid)])
    try await rig.stop()
    await rig.close()
  }

  @Test func aStoppedServerIsKilledAtTheEnd() async throws {
    let rig = try await EmbeddedRig(directory: TemporaryDirectory())
    try await rig.startWithLink()
    let pid = try await rig.pid()
    kill(pid, SIGSTOP)
    try await rig.stop()
    #expect(kill(pid, 0) == -1 && errno == ESRCH)
    await rig.close()
  }

  @Test func withoutTheProgram() async throws {
    let rig = try await EmbeddedRig(directory: TemporaryDirectory(), searchPath: "/nonexistent:/proc")
    guard case .failure(let error) = try await rig.start() else {
      Issue.record("there is no redis-server in /proc")
      return
    }
    #expect(error.code == .cannotStart && error.description.contains("apt install redis-server"))
    await rig.close()
  }

  @Test func aPathThatIsTooLong() async throws {
    // "/redis/redis.sock" has 17 bytes; 107 is one too many, 106 the most.
    let directory = TemporaryDirectory()
    let fill = 106 - 17 - directory.path.utf8.count - 1
    for (length, fits) in [(fill, true), (fill + 1, false)] {
      let deep = "\(directory.path)/" + String(repeating: "d", count: length)
      #expect(unsafe mkdir(deep, 0o700) == 0)
      let result = await startAndStop(deep)
      #expect(result == (fits ? nil : .cannotStart), "\(deep.utf8.count + 17) bytes")
    }
  }

  @Test func directoriesThatAreNone() async throws {
    let directory = TemporaryDirectory()
    #expect(await startAndStop("\(directory.path)/missing") == .cannotStart)
    close(unsafe open("\(directory.path)/redis", O_CREAT | O_WRONLY | O_CLOEXEC, 0o600))
    #expect(await startAndStop(directory.path) == .cannotStart)
  }

  @Test func aServerThatCannotStartSaysWhere() async throws {
    let directory = TemporaryDirectory()
    unsafe mkdir("\(directory.path)/redis", 0o700)
    // In the place of the append-only directory.
    close(unsafe open("\(directory.path)/redis/appendonlydir", O_CREAT | O_WRONLY | O_CLOEXEC, 0o600))
    let rig = try await EmbeddedRig(directory: directory)
    guard case .failure(let error) = try await rig.start() else {
      Issue.record("it must not start")
      return
    }
    #expect(error.description.contains("\(directory.path)/redis/redis.log"))
    #expect(error.description.contains("exit code 1"))
    // And once the cause is gone, the same object starts it.
    unsafe unlink("\(directory.path)/redis/appendonlydir")
    _ = try await rig.start().get()
    try await rig.stop()
    await rig.close()
  }

  /// Starts an embedded Redis, stops it again, and gives the code of the error, if any.
  private func startAndStop(_ path: String) async -> RedisError.Code? {
    do {
      let rig = try RedisRig(address: .unix(path: "unused"))
      let result: Result<RedisAddress, RedisError> = try await rig.wait { rig, done in
        let embedded = EmbeddedRedis(loop: rig.loop, directory: path)
        rig.values["embedded"] = embedded
        embedded.start { result in embedded.stop { done(result) } }
      }
      await rig.run { $0.values = [:] }
      await rig.close()
      if case .failure(let error) = result { return error.code }
    } catch {
      Issue.record(error)
    }
    return nil
  }

  private func mode(_ path: String) -> mode_t? {
    var status = stat()
    return unsafe lstat(path, &status) == 0 ? status.st_mode & 0o777 : nil
  }

  /// A server that another loop started is a child of this process all the same: gone may mean that it waits to be
  /// collected.
  private static func isGone(_ pid: pid_t) -> Bool {
    var status: Int32 = 0
    return unsafe waitpid(pid, &status, WNOHANG) == pid || (kill(pid, 0) == -1 && errno == ESRCH)
  }
}
