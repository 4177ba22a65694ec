import Glibc
import ProgramRig
import Testing

/// `simp-bench verify` as built: short runs with each fault, against a server it starts itself, and histories that are
/// tampered with.
@Suite(.serialized)
struct VerifyProgramTests {
  private func run(_ arguments: [String], in directory: TestDirectory) async throws -> (Int32, RunningProgram) {
    let program = try await RunningProgram(
      "simp-bench", ["verify"] + arguments, environment: ["TMPDIR": directory.path], in: directory)
    return (try await program.end(seconds: 300), program)
  }

  /// The number behind a name in the first object that has it.
  private func number(_ name: String, in text: String) -> Double? {
    guard let range = text.firstRange(of: "\"\(name)\":") else { return nil }
    return Double(text[range.upperBound...].prefix { "0123456789.-".contains($0) })
  }

  /// Little load for long enough that the fault comes, and all the time that a slow machine needs to drain.
  private static let short = ["--users", "8", "--rate", "30", "-d", "5", "--drain", "200", "--json"]

  @Test(arguments: [
    "server-kill", "server-stop", "redis-kill", "redis-stop", "udp-blackhole", "tcp-cut", "nat-rebind", "impair",
    "client-kill", "clock-step",
  ])
  func eachFaultIsMadeAndHarmsNothing(fault: String) async throws {
    // What is loaded before a sanitizer's runtime ends the program.
    let isSanitized = unsafe dlsym(nil, "__asan_init") != nil || dlsym(nil, "__tsan_init") != nil
    if fault == "clock-step", isSanitized { return }
    let directory = try TestDirectory()
    let (status, program) = try await run(Self.short + ["--\(fault)", "2"], in: directory)
    #expect(status == 0, "\(program.output)\(program.errorOutput)")
    #expect(try #require(number(fault, in: program.output)) >= 1)
    let sent = try #require(number("sent", in: program.output))
    #expect(sent > 0 && number("delivered", in: program.output) == sent, "\(program.output)")
    #expect(program.output.contains("\"finish\":\"drained\""))
    // All that it started and made is gone.
    #expect(directory.directories.isEmpty, "\(directory.directories)")
  }

  @Test func aHistoryIsWrittenAndJudgedAlike() async throws {
    let directory = try TestDirectory()
    let history = directory.path + "/history"
    let (status, program) = try await run(
      Self.short + ["--tcp-cut", "1", "--clients", "2", "--history", history], in: directory)
    #expect(status == 0, "\(program.output)\(program.errorOutput)")
    let (again, check) = try await run(["--check", history, "--json"], in: directory)
    #expect(again == 0, "\(check.output)\(check.errorOutput)")
    for name in ["sent", "delivered", "lost", "redelivered", "longest_ms", "tcp-cut", "accepted"] {
      #expect(number(name, in: check.output) == number(name, in: program.output), "\(name)")
    }
    // Without one delivery the message is lost, with one twice it is doubled.
    let lines = TestDirectory.read(history).split(separator: "\n")
    let shown = try #require(lines.firstIndex { $0.contains("\"e\":\"delivery\"") })
    var fewer = lines
    fewer.remove(at: shown)
    var more = lines
    more.insert(lines[shown], at: shown)
    for (tampered, word) in [(fewer, "lost"), (more, "doubled")] {
      try TestDirectory.write(tampered.joined(separator: "\n") + "\n", to: history)
      let (status, check) = try await run(["--check", history], in: directory)
      #expect(status == 6)
      #expect(check.lines.last?.contains("1 \(word)") == true, "\(check.output)")
    }
  }

  /// They come and go by themselves between two kills, too.
  @Test func noLifeOfAKilledClientComesTwice() async throws {
    let directory = try TestDirectory()
    let history = directory.path + "/history"
    let (status, program) = try await run(
      ["--users", "16", "--rate", "40", "-d", "10", "--drain", "180", "--client-kill", "3", "--clients", "1"]
        + ["--history", history], in: directory)
    #expect(status == 0, "\(program.output)\(program.errorOutput)")
    let starts = TestDirectory.read(history).split(separator: "\n").filter { $0.contains("\"e\":\"start\"") }
      .map { $0.drop { $0 != "," } }
    #expect(starts.count > 16 && Set(starts).count == starts.count)
  }

  @Test func interruptedItJudgesWhatItHas() async throws {
    let directory = try TestDirectory()
    let history = directory.path + "/history"
    let program = try await RunningProgram(
      "simp-bench", ["verify", "--clients", "1", "-d", "1h", "--server-kill", "10s", "--history", history],
      environment: ["TMPDIR": directory.path], in: directory)
    let deadline = ContinuousClock.now + .seconds(60)
    while !TestDirectory.read(history).contains("\"e\":\"delivery\"") {
      try #require(ContinuousClock.now < deadline, "\(program.errorOutput)")
      try await Task.sleep(for: .milliseconds(20))
    }
    program.signal(SIGINT)
    #expect(try await program.end(seconds: 120) == 130)
    #expect(program.output.contains("INTERRUPTED") && program.output.contains("verdict     good"), "\(program.output)")
    #expect(TestDirectory.read(history).contains("{\"t\":") && directory.directories.isEmpty)
  }

  @Test func againstARunningServer() async throws {
    let directory = try TestDirectory()
    let server = try await RunningServer(in: directory)
    let target = ["--server", server.address, "--key", server.key]
    let (status, program) = try await run(target + Self.short + ["--client-kill", "2"], in: directory)
    #expect(status == 0, "\(program.output)\(program.errorOutput)")
    let (refused, misuse) = try await run(target + ["--server-kill", "1"], in: directory)
    #expect(refused == 2 && misuse.errorOutput.contains("private server"), "\(misuse.errorOutput)")
    #expect(try await server.stop() == 0)
  }

  @Test func aFaultThatNeverCameFailsTheRun() async throws {
    let directory = try TestDirectory()
    let (status, program) = try await run(
      ["--users", "4", "--messages", "5", "--rate", "50", "-d", "1h", "--server-kill", "30m"], in: directory)
    #expect(status == 1, "\(program.output)\(program.errorOutput)")
    #expect(program.errorOutput.contains("server-kill was asked for and never happened"), "\(program.errorOutput)")
  }

  @Test func misuseIsExplained() async throws {
    let directory = try TestDirectory()
    for (arguments, word) in [
      (["--users", "3"], "--users"), (["--server-kil", "2"], "--server-kill"),
      (["--no-udp", "--udp-blackhole", "2"], "--no-udp"), (["--client-kill", "2", "--clients", "0"], "--clients"),
      (["--server-kill", "x"], "--server-kill"),
    ] {
      let (status, program) = try await run(arguments, in: directory)
      #expect(status == 2, "\(arguments) \(program.output)")
      #expect(program.errorOutput.contains(word), "\(program.errorOutput)")
    }
    let (status, program) = try await run(["--check", directory.path + "/none"], in: directory)
    #expect(status == 1 && program.errorOutput.contains("/none"), "\(program.errorOutput)")
    let (_, help) = try await run(["--help"], in: directory)
    for word in ["--chaos", "--server-kill", "--history", "examples:", "exit status:"] {
      #expect(help.output.contains(word))
    }
    let all = try await RunningProgram("simp-bench", ["help"], in: directory)
    try await all.end(with: 0)
    #expect(all.output.contains("verify") && !all.output.contains("verify-client"))
  }
}
