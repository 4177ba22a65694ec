import ProgramRig
import Testing

/// `simp-bench pair` as built, against a server it starts itself.
struct PairProgramTests {
  private func run(_ arguments: [String]) async throws -> (status: Int32, program: RunningProgram) {
    let directory = try TestDirectory()
    let program = try await RunningProgram(
      "simp-bench", ["pair", "--warmup", "100ms"] + arguments, environment: ["TMPDIR": directory.path], in: directory)
    return (try await program.end(), program)
  }

  /// The number behind a name in the first object that has it.
  private func number(_ name: String, in text: String) -> Double? {
    guard let range = text.firstRange(of: "\"\(name)\":") else { return nil }
    return Double(text[range.upperBound...].prefix { "0123456789.-".contains($0) })
  }

  @Test func anOpenLoopReportsAsJSON() async throws {
    let (status, program) = try await run(["--pairs", "3", "--rate", "300", "-d", "1", "--json"])
    #expect(status == 0, "\(program.errorOutput)")
    let json = try #require(program.lines.last)
    #expect(program.lines.count == 1)
    for name in ["sent", "delivered", "duplicated", "out_of_order", "lost", "retransmitted", "by_tcp", "rate_per_s"] {
      #expect(number(name, in: json) != nil, "\(name) is missing in \(json)")
    }
    for name in ["p50", "p90", "p99", "p999", "max"] {
      #expect(try #require(number(name, in: json)) > 0)
    }
    #expect(number("sent", in: json) == number("delivered", in: json))
    // 330 by the schedule, 3 to open the conversations.
    #expect(number("sent", in: json) == 333)
    #expect(json.contains("\"cipher\":\"AES-128-GCM\",\"tls\":\"TLS 1.3, TLS_AES_128_GCM_SHA256\""))
  }

  @Test func aClosedLoopOnABadNetworkLosesNothing() async throws {
    let (status, program) = try await run([
      "--pairs", "2", "--window", "20", "-d", "1", "--loss", "10%", "--delay", "2", "--seed", "3",
    ])
    #expect(status == 0, "\(program.output)\(program.errorOutput)")
    #expect(program.output.contains("verdict     good"))
    let dropped = program.output.firstRange(of: "seed 3: ").map {
      program.output[$0.upperBound...].prefix { $0 != " " }
    }
    #expect(try #require(Int(dropped ?? "")) > 0, "the impairment did nothing")
  }

  @Test func theSuiteOfTheDatagramsCanBeChosen() async throws {
    let (status, program) = try await run(["--rate", "100", "-d", "500ms", "--cipher", "chacha20", "--json"])
    #expect(status == 0, "\(program.output)\(program.errorOutput)")
    #expect(program.output.contains("\"cipher\":\"ChaCha20-Poly1305\""))
    let (refused, other) = try await run(["--cipher", "chacha20", "--no-udp"])
    #expect(refused == 2 && other.errorOutput.contains("--cipher is for datagrams"), "\(other.errorOutput)")
  }

  @Test func withoutUDPEverythingGoesByTCP() async throws {
    let (status, program) = try await run(["--rate", "100", "-d", "1", "--no-udp", "--json"])
    #expect(status == 0, "\(program.output)\(program.errorOutput)")
    #expect(number("by_tcp", in: program.output) == number("sent", in: program.output))
    #expect(program.output.contains("\"cipher\":null"))
  }

  @Test func aRunningServerIsLoadedWithItsKey() async throws {
    let server = try await RunningServer(in: TestDirectory())
    let (status, program) = try await run([
      "--server", server.address, "--key", server.key, "--rate", "100", "-d", "500ms", "--json",
    ])
    #expect(status == 0, "\(program.errorOutput)")
    #expect(program.output.contains("\"server\":\"\(server.address)\""))
    #expect(try await server.stop() == 0)
  }

  @Test func anInterruptedRunReportsAndLeavesNothingBehind() async throws {
    let directory = try TestDirectory()
    let program = try await RunningProgram(
      "simp-bench", ["pair", "--rate", "100", "-d", "60", "--drain", "1", "--json"],
      environment: ["TMPDIR": directory.path], in: directory)
    let began = ContinuousClock.now
    // Its private server is coming up once its directory is there.
    while directory.directories.isEmpty {
      try #require(ContinuousClock.now - began < .seconds(30))
      try await Task.sleep(for: .milliseconds(20))
    }
    program.signal(2)
    #expect(try await program.end() == 130)
    #expect(directory.directories.isEmpty)
  }

  @Test func misuseIsExplained() async throws {
    let directory = try TestDirectory()
    for (arguments, word) in [
      (["pair", "--pears", "2"], "--pairs"), (["pare"], "pair"), ([], "pair"), (["pair", "--rate", "x"], "--rate"),
    ] {
      let program = try await RunningProgram("simp-bench", arguments, in: directory)
      #expect(try await program.end() == 2)
      #expect(program.errorOutput.contains(word), "\(program.errorOutput)")
      #expect(program.output.isEmpty)
    }
    let noServer = try await RunningProgram(
      "simp-bench", ["pair", "--server", "127.0.0.1:1", "--key", "/nonexistent"], in: directory)
    #expect(try await noServer.end() == 2)
    #expect(noServer.errorOutput.contains("/nonexistent"))
  }
}
