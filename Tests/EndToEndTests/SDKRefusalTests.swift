import SimpCore
import Testing

@testable import SimpConnection

@Suite(.timeLimit(.minutes(5)))
struct SDKRefusalTests {
  @Test func aRefusedTokenEndsTheConnection() async throws {
    try await withSDKServer { server in
      let stranger = try server.connection(token: "not.a.token")
      #expect(await code { try await stranger.connected() } == .tokenInvalid)
      #expect(await code { for try await _ in stranger.messages {} } == .tokenInvalid)
      #expect(await code { try await stranger.send("hello", to: "bob") } == .tokenInvalid)
      let last = await stranger.wait { $0.isClosed }.last
      guard case .closed(let error?)? = last else {
        Issue.record("\(String(describing: last))")
        return
      }
      #expect(error.code == .tokenInvalid && error.message.hasPrefix("the server refused the login: "))
      #expect(stranger.statistics.logins == 0)
      // Closing what is over is fine, and so is letting go of it.
      await stranger.close()
    }
  }

  @Test func anExpiredTokenIsToldApart() async throws {
    try await withSDKServer { server in
      let late = try server.connection(token: server.token("alice", age: 660))
      #expect(await code { try await late.connected() } == .tokenExpired)
    }
  }

  @Test func aNewerLoginOfTheSameUserReplacesTheOlder() async throws {
    try await withSDKServer { server in
      let older = try server.connection("bob")
      try await older.connected()
      let newer = try server.connection("bob")
      try await newer.connected()
      #expect(await code { for try await _ in older.messages {} } == .replaced)
      await older.wait { $0.isClosed }
      // It does not come back: no ping-pong between two programs.
      try await newer.send("to myself", to: "bob")
      #expect(try await newer.take(1).first?.text == "to myself")
      #expect(newer.statistics.logins == 1 && older.statistics.logins == 1)
      await newer.close()
    }
  }

  @Test func nobodyThereIsToldInTime() async throws {
    var configuration = SIMPConnection.Configuration()
    configuration.connectTimeout = .seconds(2)
    let connection = try SIMPConnection(to: "127.0.0.1:1", token: "t", configuration: configuration)
    do {
      try await connection.connected()
      Issue.record("connected to nobody")
    } catch {
      #expect(error.code == .connectFailed && error.message.contains("is the server running"), "\(error)")
    }
    await connection.close()
    #expect(await code { try await connection.connected() } == .closed)
  }

  @Test func aNameThatDoesNotExistIsToldInTime() async throws {
    var configuration = SIMPConnection.Configuration()
    configuration.connectTimeout = .milliseconds(500)
    let connection = try SIMPConnection(to: "no-such-host.invalid", token: "t", configuration: configuration)
    #expect(await code { try await connection.connected() } == .connectFailed)
    await connection.close()
  }

  @Test func whatCannotBeSentIsRefusedAtOnce() async throws {
    let connection = try SIMPConnection(to: "127.0.0.1:9", token: "t")
    #expect(await code { try connection.post("x", to: "no spaces") } == .invalidName)
    #expect(await code { try connection.post("x", to: "") } == .invalidName)
    #expect(await code { try connection.post("a\0b", to: "bob") } == .invalidText)
    let large = String(repeating: "x", count: WireLimits.maximumContentBytes)
    #expect(await code { try connection.post(large, to: "bob") } == .tooLarge)
    #expect(connection.statistics.unfinished == 0)
    await connection.close()
    #expect(await code { try connection.post("x", to: "bob") } == .closed)
  }

  @Test func theLargestMessagePasses() async throws {
    try await withSDKServer { server in
      try await withPair(server) { alice, bob in
        let large = String(repeating: "x", count: WireLimits.maximumContentBytes - 64)
        try alice.post(large, to: "bob")
        #expect(try await bob.take(1).first?.text == large)
        #expect(await code { try alice.post(large + "x", to: "bob") } == .tooLarge)
      }
    }
  }

  @Test(arguments: [
    "", ":7467", "host:", "host:x", "host:0", "host:65536", "[::1", "[::1]x", "[::1]:", "[host]:1", "a b",
    "http://host",
    "host:-1", "host:+1",
  ])
  func aWrongAddressIsRefused(_ address: String) async {
    #expect(await code { _ = try SIMPConnection(to: address, token: "t") } == .invalidAddress)
  }

  @Test func addressesAreRead() throws {
    func parse(_ text: String) throws -> String { "\(try ServerName(parsing: text, defaultPort: 7467))" }
    #expect(try parse("im.example.org") == "im.example.org:7467")
    #expect(try parse("im.example.org:1") == "im.example.org:1")
    #expect(try parse("127.0.0.1:65535") == "127.0.0.1:65535")
    #expect(try parse("[::1]:9") == "[::1]:9")
    #expect(try parse("[fe80::1%eth0]") == "[fe80::1%eth0]:7467")
    #expect(try parse("::1") == "[::1]:7467")
  }

  @Test func aTokenNobodyCanTakeIsRefused() async {
    #expect(await code { _ = try SIMPConnection(to: "host", token: "") } == .tokenInvalid)
    let long = String(repeating: "x", count: 3073)
    #expect(await code { _ = try SIMPConnection(to: "host", token: long) } == .tokenInvalid)
  }
}
