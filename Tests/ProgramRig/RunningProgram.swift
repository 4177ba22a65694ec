import Glibc
import SimpIO

/// One of the package's programs, started by a test, its output gathered in files.
public final class RunningProgram: Sendable {
  public struct Trouble: Error, CustomStringConvertible {
    public let description: String
  }

  private static let loop: EventLoop = {
    guard let loop = try? EventLoop() else { fatalError("no descriptors left for the tests") }
    loop.startThread(name: "programs")
    return loop
  }()

  private let name: String
  private let directory: TestDirectory
  private let outputPath: String
  private let errorPath: String
  private let pid: Int32
  private let ended: Locked<ChildProcess.Status?>

  /// Starts a program that was built beside the tests.
  ///
  /// - Parameters:
  ///   - input: its standard input; nothing unless given.
  ///   - inputPath: a file, or FIFO, to be its standard input instead.
  ///   - environment: variables beside PATH and those of sanitizers.
  ///   - output: where its standard output goes, instead of into `output`.
  public init(
    _ name: String, _ arguments: [String], input: String = "", inputPath: String? = nil,
    environment: [String: String] = [:], output: String? = nil, in directory: TestDirectory
  ) async throws {
    self.name = name
    self.directory = directory
    let stem = directory.path + "/" + name + "-\(UInt64.random(in: .min ... .max))"
    outputPath = output ?? stem + ".out"
    errorPath = stem + ".err"
    let ownInputPath = stem + ".in"
    try TestDirectory.write(input, to: ownInputPath)
    let program = Self.directory + name
    guard unsafe access(program, X_OK) == 0 else { throw Trouble(description: "\(program) is not built") }
    let ended = Locked<ChildProcess.Status?>(nil)
    self.ended = ended
    // The shell wires up the files and becomes the program.
    let script = "exec \"$0\" \"$@\" <'\(inputPath ?? ownInputPath)' >'\(outputPath)' 2>'\(errorPath)'"
    let variables = Self.inherited.merging(environment) { $1 }.map { "\($0)=\($1)" }
    let result: Result<Int32, IOError> = await withCheckedContinuation { continuation in
      Self.loop.execute {
        do throws(IOError) {
          let child = try ChildProcess(
            loop: Self.loop, program: "/bin/sh", arguments: ["-c", script, program] + arguments,
            environment: variables
          ) { status in ended.withLock { $0 = status } }
          continuation.resume(returning: .success(child.pid))
        } catch {
          continuation.resume(returning: .failure(error))
        }
      }
    }
    pid = try result.get()
  }

  /// What programs get of the tests' own environment: nothing that SIMP would read.
  private static let inherited: [String: String] = {
    let names = ["PATH", "LD_LIBRARY_PATH", "TSAN_OPTIONS", "ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS"]
    var found: [String: String] = [:]
    for name in names {
      // SAFETY: no test changes the environment; the text is copied at once.
      if let value = unsafe getenv(name) { found[name] = unsafe String(cString: value) }
    }
    // Two folders up from this file. Read by the leak check alone; the tests themselves run without it.
    let tests = #filePath.split(separator: "/").dropLast(2).joined(separator: "/")
    found["LSAN_OPTIONS"] = found["LSAN_OPTIONS"] ?? "suppressions=/\(tests)/leak.suppressions:print_suppressions=0"
    return found
  }()

  /// Where the programs are: beside the test bundle.
  private static let directory: String = {
    var buffer = [CChar](repeating: 0, count: 4096)
    // SAFETY: at most `buffer.count` bytes are written into `buffer`.
    let count = unsafe readlink("/proc/self/exe", &buffer, buffer.count)
    let own = String(decoding: buffer.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return own.lastIndex(of: "/").map { String(own[...$0]) } ?? "./"
  }()

  public var output: String { outputPath.hasPrefix("/dev/") ? "" : TestDirectory.read(outputPath) }
  public var errorOutput: String { TestDirectory.read(errorPath) }
  public var lines: [String] {
    output.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
  }

  deinit { terminate(seconds: 0) }

  /// Has it end, waits for that, and kills it when it does not end in time.
  func terminate(seconds: Double) {
    signal(SIGTERM)
    let deadline = ContinuousClock.now + .seconds(seconds)
    while ended.withLock({ $0 }) == nil, ContinuousClock.now < deadline { usleep(5000) }
    signal(SIGKILL)
  }

  public func signal(_ number: Int32) {
    if ended.withLock({ $0 }) == nil { kill(pid, number) }
  }

  /// Waits until its output, or error output, holds `text`.
  public func wait(for text: String, seconds: Double = 30) async throws {
    try await wait("for \(text)", seconds: seconds) {
      self.output.contains(text) || self.errorOutput.contains(text)
    }
  }

  /// Waits until it ends.
  ///
  /// - Returns: its exit code; 128 + signal when a signal ended it.
  @discardableResult
  public func end(seconds: Double = 60) async throws -> Int32 {
    do {
      try await wait("for the end", seconds: seconds) { self.ended.withLock { $0 } != nil }
    } catch {
      kill(pid, SIGKILL)
      throw error
    }
    let status = ended.withLock { $0 }!
    return status.signal == 0 ? status.code : 128 + status.signal
  }

  /// Waits until it ends, which must be with `code`; else what it said is the error.
  public func end(with code: Int32) async throws {
    let actual = try await end()
    guard actual == code else {
      throw Trouble(description: "\(name) ended with \(actual), not \(code):\n\(output)\(errorOutput)")
    }
  }

  private func wait(_ purpose: String, seconds: Double, until condition: () -> Bool) async throws {
    let deadline = ContinuousClock.now + .seconds(seconds)
    while !condition() {
      guard ContinuousClock.now < deadline, ended.withLock({ $0 }) == nil || condition() else {
        throw Trouble(description: "waited in vain \(purpose) of \(name):\n\(output)\(errorOutput)")
      }
      try await Task.sleep(for: .milliseconds(10))
    }
  }
}
