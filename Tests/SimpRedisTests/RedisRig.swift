import Glibc
import SimpCore
import SimpIO
import Synchronization
import Testing

@testable import SimpRedis

/// A loop on its own thread with a link on it, driven step by step from a test.
///
/// `@unchecked Sendable`: `link` and `values` are touched on the loop only.
final class RedisRig: @unchecked Sendable {
  let loop: EventLoop
  private(set) var link: RedisLink!
  /// Whatever else a test keeps on the loop.
  var values: [String: Any] = [:]

  init(address: RedisAddress) throws {
    loop = try EventLoop()
    link = RedisLink(loop: loop, address: address)
    loop.startThread(name: "redis-test")
  }

  /// Stops the link, waits for the loop's end, and lets go of what may hold this rig.
  func close() async {
    await run { rig in
      rig.link.stop()
      rig.link.onUp = nil
      rig.link.onDown = nil
      rig.link.onAttemptFailed = nil
      rig.values = [:]
    }
    loop.close()
  }

  /// Runs `body` on the loop and gives back what it returns.
  @discardableResult
  func run<Value: Sendable>(_ body: @escaping @Sendable (RedisRig) -> Value) async -> Value {
    await withCheckedContinuation { continuation in
      loop.execute { continuation.resume(returning: body(self)) }
    }
  }

  /// Runs `body` on the loop and waits until it has called what it is given. After 90 s the test fails and ends here.
  func wait<Value: Sendable>(
    sourceLocation: SourceLocation = #_sourceLocation,
    _ body: @escaping @Sendable (RedisRig, @escaping (Value) -> Void) -> Void
  ) async throws -> Value {
    let value: Value? = await withCheckedContinuation { continuation in
      loop.execute {
        var isOver = false
        let end = { (value: Value?) in
          if isOver { return }
          isOver = true
          continuation.resume(returning: value)
        }
        let limit = self.loop.makeTimer { end(nil) }
        limit.arm(at: self.loop.now + .seconds(90))
        body(self) { value in
          limit.close()
          end(value)
        }
      }
    }
    return try #require(value, "nothing came within 90 s", sourceLocation: sourceLocation)
  }

  /// Waits until `condition` holds, looking at it on the loop every 2 ms.
  func until(
    sourceLocation: SourceLocation = #_sourceLocation, _ condition: @escaping @Sendable (RedisRig) -> Bool
  ) async throws {
    let _: Bool = try await wait(sourceLocation: sourceLocation) { rig, done in
      var timer: LoopTimer?
      timer = rig.loop.makeTimer {
        if condition(rig) {
          timer?.close()
          timer = nil
          done(true)
        } else {
          timer?.arm(at: rig.loop.now + .milliseconds(2))
        }
      }
      timer?.arm(at: rig.loop.now)
    }
  }

  func startAndWait(sourceLocation: SourceLocation = #_sourceLocation) async throws {
    await run { $0.link.start() }
    try await until(sourceLocation: sourceLocation) { $0.link.isUp }
  }

  /// One command and its reply.
  func command(
    _ words: [RedisArgument], deadline: Interval = .seconds(20),
    sourceLocation: SourceLocation = #_sourceLocation
  ) async throws -> RedisReply {
    let result: Result<RedisReply, RedisError> = try await wait(sourceLocation: sourceLocation) { rig, done in
      rig.link.command(words, deadline: deadline, completion: done)
    }
    return try result.get()
  }

  /// HGETALL as a dictionary.
  func hash(_ key: String) async throws -> [String: String] {
    let fields = try await command(["HGETALL", RedisArgument(key)]).elements ?? []
    return Dictionary(
      uniqueKeysWithValues: stride(from: 0, to: fields.count, by: 2).map {
        (fields[$0].text ?? "", fields[$0 + 1].text ?? "")
      })
  }
}

/// Counts how often each of many completions is called, and with what. Touched on the loop only.
final class Completions: @unchecked Sendable {
  private(set) var results: [[Result<RedisReply, RedisError>]] = []

  func next() -> (Result<RedisReply, RedisError>) -> Void {
    let index = results.count
    results.append([])
    return { self.results[index].append($0) }
  }

  var answered: Int { results.count { !$0.isEmpty } }
  var calls: Int { results.reduce(0) { $0 + $1.count } }
  var codes: [RedisError.Code?] {
    results.flatMap { $0 }.map { if case .failure(let error) = $0 { error.code } else { nil } }
  }
}

/// A directory that is removed with all it holds.
final class TemporaryDirectory: Sendable {
  let path: String

  init(suffix: String = "") {
    var template = Array("/tmp/simp-redis-XXXXXX".utf8CString)
    let made = unsafe String(cString: mkdtemp(&template)!)
    path = made + suffix
    if !suffix.isEmpty { unsafe mkdir(path, 0o700) }
  }

  deinit {
    let root = "/" + path.split(separator: "/").prefix(2).joined(separator: "/")
    Self.remove(root)
  }

  private static func remove(_ path: String) {
    for name in names(in: path) { remove("\(path)/\(name)") }
    if unsafe unlink(path) != 0 { unsafe rmdir(path) }
  }

  /// The names in a directory, none for what is no directory.
  static func names(in path: String) -> [String] {
    // O_NOFOLLOW: nothing outside is ever removed.
    let descriptor = unsafe open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
    guard descriptor >= 0, let stream = unsafe fdopendir(descriptor) else { return [] }
    defer { unsafe closedir(stream) }
    var names: [String] = []
    while let entry = unsafe readdir(stream) {
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { pointer in
        unsafe pointer.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      if name != "." && name != ".." { names.append(name) }
    }
    return names
  }
}
