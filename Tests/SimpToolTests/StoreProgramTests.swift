import Glibc
import ProgramRig
import Testing

/// `simp --store` as built, against a server of the test's own.
@Suite(.timeLimit(.minutes(5)))
struct StoreProgramTests {
  private func server(_ arguments: [String] = []) async throws -> RunningServer {
    try await RunningServer(in: TestDirectory(), arguments: arguments)
  }

  @Test func whatWasNotDeliveredGoesWithTheNext() async throws {
    let server = try await server(["--inbox-messages", "0"])
    let store = ["--store", server.directory.path + "/alice"]
    let first = try await server.simp("alice", ["send", "--timeout", "1s"] + store + ["bob", "hello"])
    try await first.end(with: 5)
    #expect(first.errorOutput.contains("not delivered") && !first.errorOutput.contains("from before"))
    // Nor with this one, to somebody else who is not there either: both are kept.
    let second = try await server.simp("alice", ["send", "--timeout", "1s"] + store + ["carol", "hello"])
    try await second.end(with: 5)
    #expect(second.errorOutput.contains("not delivered and kept from before: 1"))
    let bob = try await server.simp("bob", ["listen", "-v", "-n", "2"])
    try await bob.wait(for: "connected as bob")
    let third = try await server.simp("alice", ["send", "--timeout", "60s"] + store + ["bob", "again"])
    try await bob.end(with: 0)
    #expect(bob.lines == ["hello", "again"])
    let carol = try await server.simp("carol", ["listen", "-n", "1"])
    try await carol.end(with: 0)
    #expect(carol.lines == ["hello"])
    try await third.end(with: 0)
    #expect(!third.errorOutput.contains("from before"))
  }

  @Test func anIdOnStandardInputAcknowledges() async throws {
    let server = try await server()
    let store = ["--store", server.directory.path + "/bob"]
    let fifo = server.directory.path + "/ids"
    try #require(unsafe mkfifo(fifo, 0o600) == 0)
    // For reading as well, so that neither end waits for the other to open it.
    let ids = unsafe open(fifo, O_RDWR | O_CLOEXEC)
    defer { close(ids) }
    let arguments = ["listen", "-v", "--json", "--ack", "manual"] + store
    let bob = try await RunningProgram(
      "simp", arguments, inputPath: fifo, environment: server.environment(token: try await server.token("bob")),
      in: server.directory)
    try await bob.wait(for: "connected as bob")
    let alice = try await server.simp("alice", ["send", "bob"], input: "one\ntwo\nthree\n")
    // Delivered, though none is acknowledged: they are in the store.
    try await alice.end(with: 0)
    try await bob.wait(for: "three")
    let shown = bob.lines.filter { $0.hasPrefix("{") }
    try #require(shown.count == 3)
    let line = id(shown[1]) + "\n77\n"
    let written = unsafe write(ids, line, line.utf8.count)
    #expect(written == line.utf8.count)
    try await bob.wait(for: "no message with the id 77 waits")
    bob.signal(SIGTERM)
    try await bob.end(with: 0)

    let again = try await server.simp("bob", ["listen", "--json", "-n", "2"] + store)
    try await again.end(with: 0)
    #expect(again.lines.map(id) == [id(shown[0]), id(shown[2])])
    #expect(again.lines.allSatisfy { $0.contains("\"redelivered\":true") })
    #expect(shown.allSatisfy { $0.contains("\"redelivered\":false") })
  }

  private func id(_ line: String) -> String { String(line.dropFirst("{\"id\":\"".count).prefix { $0 != "\"" }) }

  @Test func whatIsNoStoreIsSaid() async throws {
    let server = try await server()
    let refused = try await server.simp("alice", ["send", "--store", server.directory.path, "bob", "x"])
    try await refused.end(with: 1)
    #expect(refused.errorOutput == "simp: \(server.directory.path) is not a store: it is a directory\n")
    let wrong = try await server.simp("alice", ["listen", "--ack", "perhaps"])
    try await wrong.end(with: 2)
    #expect(wrong.errorOutput.contains("--ack is automatic or manual"))
  }
}
