import Glibc
import ProgramRig
import SimpToken
import Testing

/// `simp` as built, against a server of the test's own.
struct SimpProgramTests {
  private func server() async throws -> RunningServer { try await RunningServer(in: TestDirectory()) }

  /// A `listen` that is there.
  private func listener(
    _ server: RunningServer, _ user: String = "bob", _ arguments: [String] = []
  ) async throws -> RunningProgram {
    let program = try await server.simp(user, ["listen", "--verbose"] + arguments)
    try await program.wait(for: "udp path up")
    return program
  }

  @Test func linesArriveAsTheyAre() async throws {
    let server = try await server()
    let lines = (0..<1000).map { $0 % 10 == 0 ? "" : String(repeating: "ä \\ \" \t", count: $0 % 40) + "\($0)" }
    let bob = try await listener(server, "bob", ["-n", "\(lines.count + 1)"])
    let text = lines.joined(separator: "\n") + "\nwithout newline"
    let alice = try await server.simp("alice", ["send", "bob"], input: text)
    try await alice.end(with: 0)
    #expect(alice.output.hasPrefix("1001 of 1001 lines delivered"))
    try await bob.end(with: 0)
    #expect(bob.output == text + "\n")
  }

  @Test func oneTextIsReported() async throws {
    let server = try await server()
    let bob = try await listener(server, "bob", ["--json", "-n", "1"])
    let alice = try await server.simp("alice", ["send", "bob", "hello"])
    try await alice.end(with: 0)
    let report = alice.output.split(separator: " ")
    #expect(report.count == 7 && report[0] == "sent" && report[2] == "delivered" && report[5] == "via")
    try await bob.end(with: 0)
    let id = String(report[1].dropFirst("id=".count))
    #expect(bob.lines.count == 1)
    #expect(bob.output.hasPrefix("{\"id\":\"\(id)\",\"from\":\"alice\",\"text\":\"hello\",\"type\":\"text\",\"time\":"))
    #expect(bob.output.hasSuffix("\"order\":1,\"device\":1,\"via\":\"udp\",\"late\":false,\"redelivered\":false}\n"))
  }

  @Test func verboseTellsWhatHappenedToEachLineAndWhen() async throws {
    let server = try await server()
    let bob = try await listener(server, "bob", ["-n", "2"])
    let alice = try await server.simp("alice", ["send", "bob", "--verbose"], input: "one\ntwo\n")
    try await alice.end(with: 0)
    let lines = alice.lines.filter { $0.hasPrefix("sent id=") }
    #expect(lines.count == 2)
    for line in lines {
      let steps = try #require(line.split(separator: ": ").last).split(separator: ", ")
      #expect(steps.first?.hasPrefix("sent after ") == true, "\(line)")
      #expect(steps.last?.hasPrefix("delivered after ") == true, "\(line)")
    }
    #expect(alice.errorOutput.contains(" datagrams sent, "), "\(alice.errorOutput)")
    try await bob.end(with: 0)
  }

  @Test func whoIsNotThereGetsNothingAndTheSenderIsTold() async throws {
    let server = try await RunningServer(in: TestDirectory(), arguments: ["--inbox-messages", "0"])
    let alice = try await server.simp("alice", ["send", "carol", "--timeout", "4s"], input: "one\ntwo\n")
    try await alice.end(with: 5)
    #expect(alice.errorOutput.contains("not delivered: 2 of 2 lines (1-2): no receipt within 4.00 s"))
    #expect(alice.errorOutput.contains("carol is not there"))
    let interrupted = try await server.simp("alice", ["send", "carol", "text", "--verbose"])
    try await interrupted.wait(for: "connected as alice")
    interrupted.signal(2)
    try await interrupted.end(with: 130)
    #expect(interrupted.errorOutput.contains("not delivered: interrupted"))
  }

  @Test func whatIsForSomebodyAwayIsStoredAndComesInOrder() async throws {
    let server = try await server()
    try await server.simp("bob", ["listen", "--timeout", "1ms"]).end(with: 0)
    let lines = (1...2000).map { "line \($0)" }
    let alice = try await server.simp("alice", ["send", "bob"], input: lines.joined(separator: "\n"))
    try await alice.end(with: 0)
    #expect(alice.output.hasPrefix("0 of 2000 lines delivered, 2000 stored for later in "), "\(alice.output)")
    let one = try await server.simp("alice", ["send", "bob", "last"])
    try await one.end(with: 0)
    #expect(one.output.contains(" stored: bob gets it later"))
    let bob = try await server.simp("bob", ["listen", "-n", "2001"])
    try await bob.end(with: 0)
    #expect(bob.lines == lines + ["last"])
  }

  @Test func whoIsInterruptedBeforeThereIsAConnectionIsToldSo() async throws {
    let server = try await server()
    let token = try await server.token("alice")
    // Its kernel takes the connection, and nobody answers.
    server.program.signal(SIGSTOP)
    defer { server.program.signal(SIGCONT) }
    let interrupted = try await RunningProgram(
      "simp", ["send", "carol", "text", "--verbose"],
      environment: server.environment(token: token), in: server.directory)
    try await interrupted.wait(for: "connecting")
    interrupted.signal(2)
    try await interrupted.end(with: 130)
    #expect(interrupted.errorOutput.contains("not delivered: interrupted"), "\(interrupted.errorOutput)")
  }

  @Test func linesThatAreNoMessagesAreNamedAndTheOthersGo() async throws {
    let server = try await server()
    let bob = try await listener(server, "bob", ["-n", "2"])
    let alice = try await server.simp("alice", ["send", "bob"], input: "one\nt\u{0}o\nthree\n")
    try await alice.end(with: 6)
    #expect(alice.errorOutput.contains("1 of 3 lines (2)"))
    try await bob.end(with: 0)
    #expect(bob.lines == ["one", "three"])
  }

  @Test func signalsAndTimeEndAListener() async throws {
    let server = try await server()
    let forever = try await listener(server)
    forever.signal(15)
    try await forever.end(with: 0)
    let counting = try await listener(server, "bob", ["-n", "1"])
    counting.signal(2)
    try await counting.end(with: 130)
    let impatient = try await server.simp("bob", ["listen", "-n", "1", "--timeout", "200ms"])
    try await impatient.end(with: 5)
    try await server.simp("bob", ["listen", "--timeout", "200ms"]).end(with: 0)
  }

  @Test func aSecondListenerEndsTheFirstWithTheReason() async throws {
    let server = try await server()
    let first = try await listener(server)
    let second = try await listener(server)
    try await first.end(with: 4)
    #expect(first.errorOutput.contains("one device a user"))
    second.signal(15)
    try await second.end(with: 0)
  }

  @Test func whatCannotBePrintedIsNotReceipted() async throws {
    let server = try await server()
    let full = try await RunningProgram(
      "simp", ["listen", "--verbose"],
      environment: server.environment(token: try await server.token("bob")),
      output: "/dev/full", in: server.directory)
    try await full.wait(for: "udp path up")
    let alice = try await server.simp("alice", ["send", "bob", "precious"])
    try await full.end(with: 1)
    #expect(full.errorOutput.contains("the disk is full"))
    // It is still alice's to deliver: the next listener gets it.
    let bob = try await server.simp("bob", ["listen", "-n", "1"])
    try await bob.end(with: 0)
    #expect(bob.lines == ["precious"])
    try await alice.end(with: 0)
  }

  @Test func chatSendsAndShows() async throws {
    let server = try await server()
    let bob = try await listener(server, "bob", ["-n", "2"])
    let chat = try await server.simp("alice", ["chat", "bob"], input: "hello\nbye\n")
    try await chat.end(with: 0)
    try await bob.end(with: 0)
    #expect(bob.lines == ["hello", "bye"])
  }

  @Test func pingAnswersByBoth() async throws {
    let server = try await server()
    let ping = try await server.simp("alice", ["ping", "-n", "2", "--interval", "1ms"])
    try await ping.end(with: 0)
    #expect(ping.lines.count == 4)
    #expect(ping.lines[2].hasPrefix("udp: 2 of 2 answered, min "))
    #expect(ping.lines[3].hasPrefix("tcp: 2 of 2 answered, min "))
  }

  @Test func refusalsNameTheRemedy() async throws {
    let server = try await server()
    let expired = try Tokens.mint(user: "alice", key: TokenKey.load(path: server.key), ttlSeconds: 60, now: 1_000_000)
    for (token, code, word) in [
      ("nonsense", Int32(4), "simp token USER"), (" ", 2, "simp token USER"), (expired, 4, "expired"),
    ] {
      let program = try await RunningProgram(
        "simp", ["send", "bob", "text"], environment: server.environment(token: token), in: server.directory)
      try await program.end(with: code)
      #expect(program.errorOutput.contains(word), "\(program.errorOutput)")
      #expect(program.output.isEmpty)
    }
    let nobody = try await RunningProgram(
      "simp", ["listen"], environment: ["SIMP_SERVER": "127.0.0.1:1", "SIMP_TOKEN": "t"], in: server.directory)
    try await nobody.end(with: 3)
    #expect(nobody.errorOutput.contains("is simp-server running there?"))
  }
}
