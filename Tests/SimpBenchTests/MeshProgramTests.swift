import Glibc
import ProgramRig
import Testing

/// `simp-bench mesh` as built, against a server it starts itself.
struct MeshProgramTests {
  private func run(_ arguments: [String]) async throws -> (status: Int32, program: RunningProgram) {
    let directory = try TestDirectory()
    let program = try await RunningProgram(
      "simp-bench", ["mesh"] + arguments, environment: ["TMPDIR": directory.path], in: directory)
    return (try await program.end(), program)
  }

  /// The number behind a name in the first object that has it.
  private func number(_ name: String, in text: String) -> Double? {
    guard let range = text.firstRange(of: "\"\(name)\":") else { return nil }
    return Double(text[range.upperBound...].prefix { "0123456789.-".contains($0) })
  }

  @Test func aClosedLoopReportsAsJSON() async throws {
    let (status, program) = try await run(["-c", "8", "-w", "20", "-d", "1", "--json"])
    #expect(status == 0, "\(program.errorOutput)")
    let json = try #require(program.lines.last)
    #expect(program.lines.count == 1)
    for name in [
      "sent", "delivered", "duplicated", "out_of_order", "lost", "corrupt", "retransmitted", "rate_per_s", "later",
      "logins_per_s", "server_memory_kib", "bench_memory_kib", "server_cpu_us", "bench_cpu_us",
    ] {
      #expect(number(name, in: json) != nil, "\(name) is missing in \(json)")
    }
    for name in ["p50", "p99", "p999", "max"] { #expect(try #require(number(name, in: json)) > 0) }
    // The window was turned over.
    #expect(try #require(number("sent", in: json)) > 20)
    #expect(number("sent", in: json) == number("delivered", in: json))
    #expect(number("receipts", in: json) == number("sent", in: json))
    #expect(number("paths_up", in: json) == 8)
    // Where a process gets no processor for some milliseconds a few go by TCP as well, and may be there first.
    let byTCP = try #require(number("by_tcp", in: json))
    #expect(byTCP * 10 < (number("delivered", in: json) ?? 0), "\(json)")
    #expect(json.contains("\"cipher\":\"AES-128-GCM\",\"tls\":\"TLS 1.3, TLS_AES_128_GCM_SHA256\""))
  }

  @Test func aRateIsKept() async throws {
    let (status, program) = try await run(["-c", "4", "--rate", "200", "-d", "1", "--json"])
    #expect(status == 0, "\(program.errorOutput)")
    #expect(number("sent", in: program.output) == 200)
    #expect(number("delivered", in: program.output) == 200)
    #expect(program.output.contains("\"lag_ms\":{"))
  }

  @Test func withoutUDPEverythingGoesByTCP() async throws {
    let (status, program) = try await run(["-c", "3", "-w", "5", "-d", "300ms", "--no-udp"])
    #expect(status == 0, "\(program.errorOutput)")
    #expect(program.output.contains("datagrams off") && program.output.contains("verdict     good"))
    #expect(!program.output.contains(", 0 messages came by TCP first"))
  }

  @Test func aServerThatIsStartedAnewLosesNothing() async throws {
    let directory = try TestDirectory()
    var server = try await RunningServer(in: directory)
    let port = String(server.address.split(separator: ":")[1])
    let program = try await RunningProgram(
      "simp-bench", ["mesh", "--server", server.address, "--key", server.key, "-c", "5", "--rate", "50", "-d", "4"],
      in: directory)
    // Load is on once every user is logged in: the server says so of each.
    let name = "login "
    let deadline = ContinuousClock.now + .seconds(30)
    while server.program.errorOutput.split(separator: "\n").count(where: { $0.contains(name) }) < 5 {
      try #require(ContinuousClock.now < deadline, "\(server.program.errorOutput)\(program.errorOutput)")
      try await Task.sleep(for: .milliseconds(10))
    }
    #expect(try await server.stop() == 0)
    server = try await RunningServer(in: directory, port: port)
    #expect(try await program.end() == 0, "\(program.output)\(program.errorOutput)")
    #expect(program.output.contains("verdict     good") && program.output.contains("(200 sent, 200 delivered)"))
    #expect(!program.output.contains(", 0 lost and made again"))
    #expect(try await server.stop() == 0)
  }

  @Test func anInterruptedRunReportsWhatItHas() async throws {
    let server = try await RunningServer(in: TestDirectory())
    let program = try await RunningProgram(
      "simp-bench", ["mesh", "--server", server.address, "--key", server.key, "-c", "4", "-w", "4", "-d", "60"],
      in: server.directory)
    let deadline = ContinuousClock.now + .seconds(30)
    while true {
      let counters = try await RunningProgram(
        "simp", ["admin", "counters", "--json"], environment: server.environment(token: ""), in: server.directory)
      #expect(try await counters.end() == 0, "\(counters.errorOutput)")
      if try #require(number("simp_messages_delivered_total", in: counters.output)) > 0 { break }
      try #require(ContinuousClock.now < deadline, "\(program.errorOutput)")
    }
    program.signal(SIGINT)
    #expect(try await program.end() == 130)
    #expect(program.output.contains("INTERRUPTED") && program.output.contains("verdict     good"), "\(program.output)")
    #expect(try await server.stop() == 0)
  }

  @Test func misuseIsExplained() async throws {
    let directory = try TestDirectory()
    for (arguments, word) in [
      (["-c", "0"], "--connections"), (["-w", "x"], "--window"), (["--conections", "2"], "--connections"),
      (["--server-pid", "1"], "--server"),
    ] {
      let program = try await RunningProgram("simp-bench", ["mesh"] + arguments, in: directory)
      #expect(try await program.end() == 2)
      #expect(program.errorOutput.contains(word), "\(program.errorOutput)")
      #expect(program.output.isEmpty)
    }
    let server = try await RunningServer(in: directory)
    let noPID = try await RunningProgram(
      "simp-bench", ["mesh", "--server", server.address, "--key", server.key, "--server-pid", "2147483646"],
      in: directory)
    #expect(try await noPID.end() == 1)
    #expect(noPID.errorOutput.contains("no such process"), "\(noPID.errorOutput)")
    #expect(try await server.stop() == 0)
    let gone = try await RunningProgram(
      "simp-bench", ["mesh", "--server", server.address, "--key", server.key, "-c", "1"], in: directory)
    #expect(try await gone.end() == 3)
    #expect(gone.errorOutput.contains("could log in"), "\(gone.errorOutput)")
  }

  @Test func theHelpIsThere() async throws {
    let program = try await RunningProgram("simp-bench", ["help", "mesh"], in: TestDirectory())
    #expect(try await program.end() == 0)
    for word in ["--connections", "--window", "--rate", "examples:"] { #expect(program.output.contains(word)) }
  }
}
