import SimpCore
import SimpIO
import SimpServer
import Testing

@testable import SimpConnection

@Suite(.timeLimit(.minutes(5)))
struct SDKReconnectTests {
  @Test func whatComesTogetherWithTheEndOfTheSessionIsShown() async throws {
    let server = try SDKScriptedServer { _ in .accept }
    defer { server.close() }
    let bob = try SIMPConnection(to: server.address, token: "t", configuration: .clear)
    try await bob.connected()
    server.deliver(
      "last words", from: "alice", order: 1, andEndWith: Refusal(.shuttingDown, "", retryAfterMilliseconds: 1))
    #expect(try await bob.take(1).map(\.text) == ["last words"])
    await bob.close()
  }

  @Test func aServerThatComesBackGetsWhatItMissed() async throws {
    let first = try await SDKServer.start()
    let alice = try first.connection("alice")
    let bob = try first.connection("bob")
    try await alice.connected()
    try await bob.connected()
    async let texts = bob.take(400).map(\.text)
    for number in 1...200 { try alice.post("\(number)", to: "bob") }
    let (statesOfAlice, statesOfBob) = (alice.states, bob.states)
    await first.stop()
    await alice.wait(for: statesOfAlice) { $0.isReconnecting }
    for number in 201...400 { try alice.post("\(number)", to: "bob") }

    let second = try await SDKServer.start(in: first.directory, port: first.port)
    await alice.wait(for: statesOfAlice) { $0.isConnected }
    await bob.wait(for: statesOfBob) { $0.isConnected }
    #expect(try await texts == (1...400).map { "\($0)" })
    try await alice.drain(timeout: .seconds(100))
    let statistics = alice.statistics
    // Who of the two was back first is not said.
    #expect(statistics.delivered + statistics.stored == 400 && statistics.logins == 2)
    #expect(bob.statistics.received == 400)
    await alice.close()
    await bob.close()
    await second.stop()
  }

  @Test func whomAServerSendsAwayComesBackWithinItsSpread() async throws {
    let server = try SDKScriptedServer { _ in .accept }
    defer { server.close() }
    let connection = try SIMPConnection(to: server.address, token: "t", configuration: .clear)
    try await connection.connected()
    let states = connection.states
    server.end(Refusal(.shuttingDown, "", retryAfterMilliseconds: 3_600_000, retrySpreadMilliseconds: 1000))
    let seen = await connection.wait(for: states) { $0.isReconnecting }
    guard case .reconnecting(1, let delay, let reason)? = seen.last else {
      Issue.record("\(seen)")
      return
    }
    // An hour, and of the spread at most its second: not up to an hour again.
    #expect((.seconds(3600) ... .seconds(3601)).contains(delay) && reason.code == .unavailable)
    await connection.close()
  }

  @Test func aServerThatStartsLateIsFound() async throws {
    let directory = try SDKDirectory()
    let port: UInt16
    do {
      let first = try await SDKServer.start(in: directory)
      port = first.port
      await first.stop()
    }
    let connection = try SIMPConnection(to: "127.0.0.1:\(port)", token: "not yet known", configuration: .clear)
    let states = connection.states
    connection.start()
    let seen = await connection.wait(for: states) {
      if case .reconnecting(let attempt, _, _) = $0 { attempt >= 3 } else { false }
    }
    guard case .reconnecting(_, _, let reason)? = seen.last else { return }
    #expect(reason.code == .connectFailed && reason.message.contains("is the server running"))
    let server = try SDKScriptedServer(listen: .loopback(port: port)) { _ in .accept }
    try await connection.connected()
    await connection.close()
    server.close()
  }

  @Test func theServersTimeIsRespected() async throws {
    let server = try SDKScriptedServer {
      $0 == 0 ? .refuse(Refusal(.unavailable, "the store is away", retryAfterMilliseconds: 400)) : .accept
    }
    let connection = try SIMPConnection(to: server.address, token: "t", configuration: .clear)
    let states = connection.states
    try await connection.connected()
    let times = server.logins.withLock { logins in logins.map(\.at) }
    #expect(times.count == 2 && times[1] - times[0] >= .milliseconds(400))
    let seen = await connection.wait(for: states) { $0.isConnected }
    let isTold = seen.contains {
      if case .reconnecting(1, let delay, let reason) = $0 {
        delay >= .milliseconds(400) && reason.code == .unavailable && reason.retryAfter == .milliseconds(400)
      } else {
        false
      }
    }
    #expect(isTold, "\(seen)")
    await connection.close()
    server.close()
  }

  /// A server, or a way to it, that stood still for the time of a login. The code comes without a time to come back after.
  @Test func aLoginThatCameTooLateIsTriedAgain() async throws {
    let server = try SDKScriptedServer { $0 == 0 ? .refuse(Refusal(.timedOut, "no login within 10 s")) : .accept }
    let connection = try SIMPConnection(to: server.address, token: "t", configuration: .clear)
    let states = connection.states
    try await connection.connected()
    let seen = await connection.wait(for: states) { $0.isConnected }
    let isTold = seen.contains {
      if case .reconnecting(1, _, let reason) = $0 { reason.code == .unavailable } else { false }
    }
    #expect(isTold, "\(seen)")
    await connection.close()
    server.close()
  }

  @Test func aStormOfLoginsIsTakenInTurn() async throws {
    var limits = ServerLimits()
    limits.loginsPerSecond = 1
    let server = try await SDKServer.start(limits: limits)
    let connections = try (0..<8).map { try server.connection("user\($0)") }
    let watched = connections.map(\.states)
    for connection in connections { connection.start() }
    var refused = 0
    for (connection, states) in zip(connections, watched) {
      try await connection.connected()
      refused += await connection.wait(for: states) { $0.isConnected }.count {
        guard case .reconnecting(_, let delay, let reason) = $0, reason.code == .unavailable else { return false }
        return reason.retryAfter.map { $0 >= .seconds(1) && delay >= $0 } == true
      }
    }
    // Two in a burst; the others are told when, and obey.
    #expect(refused > 0 && connections.allSatisfy { $0.statistics.logins == 1 })
    for connection in connections { await connection.close() }
    await server.stop()
  }

  @Test func aServerThatGoesDownIsComeBackTo() async throws {
    let server = try SDKScriptedServer { _ in .accept }
    let connection = try SIMPConnection(to: server.address, token: "t", configuration: .clear)
    let states = connection.states
    try await connection.connected()
    await connection.wait(for: states) { $0.isConnected }
    server.end(Refusal(.shuttingDown, "bye"))
    await connection.wait(for: states) { $0.isConnected }
    server.cut()
    await connection.wait(for: states) { $0.isConnected }
    #expect(connection.statistics.logins == 3)
    await connection.close()
    server.close()
  }

  @Test func aSilentServerIsLeftForTheNextAttempt() async throws {
    let server = try SDKScriptedServer { $0 == 0 ? .cut : .accept }
    let connection = try SIMPConnection(to: server.address, token: "t", configuration: .clear)
    try await connection.connected()
    #expect(server.logins.withLock { $0.count } == 2)
    await connection.close()
    server.close()
  }

  @Test func eachLoginAsksForAToken() async throws {
    let server = try SDKScriptedServer { _ in .accept }
    let tokens = Counter()
    var configuration = SIMPConnection.Configuration.clear
    configuration.tokenProvider = { "token \(tokens.next())" }
    let connection = try SIMPConnection(to: server.address, token: "", configuration: configuration)
    let states = connection.states
    try await connection.connected()
    await connection.wait(for: states) { $0.isConnected }
    server.end(Refusal(.tokenExpired, "over"))
    await connection.wait(for: states) { $0.isConnected }
    #expect(server.logins.withLock { $0.map(\.token) } == ["token 1", "token 2"])
    await connection.close()
    server.close()
  }

  @Test func everyAddressOfANameIsTried() async throws {
    let server = try SDKScriptedServer { _ in .accept }
    let connection = try SIMPConnection(to: server.address, token: "t", configuration: .clear)
    let states = connection.states
    // As if a name server had said so. Nobody listens on port 1; a port of the kernel's choice may be another test's.
    let addresses: [PeerAddress] = [
      .loopback(.v6, port: 1), .loopback(port: 1), .loopback(port: server.port),
    ]
    connection.driver.execute { driver in
      driver.phase = .preparing
      driver.connect(to: addresses[...], token: "t", last: nil)
    }
    let seen = await connection.wait(for: states) { $0.isConnected }
    #expect(seen.count == 1, "all in one attempt: \(seen)")
    await connection.close()
    server.close()
  }

  @Test func sixIsSpokenToo() async throws {
    let server = try await SDKServer.start(listen: .loopback(.v6, port: 0))
    let connection = try server.connection(token: server.token("alice"), to: "[::1]:\(server.port)")
    try await connection.connected()
    let seen = await connection.wait { $0.isPathUp }
    if case .pathUp(let address, _)? = seen.last { #expect(address.hasPrefix("[::1]:")) }
    await connection.close()
    await server.stop()
  }
}

private final class Counter: Sendable {
  private let count = Watched(0)
  func next() -> Int {
    count.change { count in
      count += 1
      return count
    }
  }
}
