import SimpConnection
import SimpIO
import SimpServer
import Testing

@Suite(.timeLimit(.minutes(5)))
struct SDKTLSTests {
  /// How the first attempt of a connection ends.
  private func failure(
    of connection: SIMPConnection, sourceLocation: SourceLocation = #_sourceLocation
  ) async -> SIMPError? {
    do throws(SIMPError) {
      try await connection.connected()
      Issue.record("it connected", sourceLocation: sourceLocation)
      return nil
    } catch {
      return error
    }
  }

  private func trust(
    _ server: SDKServer, _ tls: SIMPConnection.Configuration.TLS, as host: String = "127.0.0.1"
  ) throws -> SIMPConnection {
    try server.connection(token: server.token("alice"), to: "\(host):\(server.port)") { $0.tls = tls }
  }

  @Test func aServerNobodyVouchesForIsRefusedAtOnce() async throws {
    try await withSDKServer { server in
      let error = await failure(of: try trust(server, .systemTrust))
      #expect(error?.code == .untrusted)
      #expect(error?.message.contains("signed by itself") == true && error?.message.contains(server.pin!) == true)
      let other = "sha256:" + String(repeating: "ab", count: 32)
      let pinned = await failure(of: try trust(server, .pinned(other)))
      #expect(pinned?.code == .untrusted && pinned?.message.contains("not the pinned one") == true)
    }
  }

  @Test func itsCertificateFileOrItsPinIsTrustEnough() async throws {
    try await withSDKServer { server in
      let file = server.directory.path + "/server.crt"
      for host in ["127.0.0.1", "localhost"] {
        let connection = try trust(server, .certificateAuthority(file), as: host)
        let states = connection.states
        try await connection.connected()
        let seen = await connection.wait(for: states) { $0.isConnected }
        guard case .connected(let session)? = seen.last else { return }
        #expect(session.tls == "TLS 1.3, TLS_AES_128_GCM_SHA256")
        await connection.close()
      }
      let other = "sha256:" + String(repeating: "ab", count: 32)
      let connection = try trust(server, .pinned("\(other), \(server.pin!)"))
      try await connection.connected()
      await connection.close()
    }
  }

  @Test func withTLSOffEitherSideIsTold() async throws {
    try await withSDKServer { server in
      let error = await failure(of: try trust(server, .off()))
      #expect(error?.code == .tlsFailed && error?.message.contains("this connection has TLS off") == true)
    }
    let clear = try await SDKServer.start(tls: .off)
    let error = await failure(of: try trust(clear, .systemTrust))
    #expect(error?.code == .tlsFailed && error?.message.contains("does not speak TLS") == true)
    let connection = try clear.connection("alice")
    let states = connection.states
    try await connection.connected()
    let seen = await connection.wait(for: states) { $0.isConnected }
    if case .connected(let session)? = seen.last { #expect(session.tls == nil) }
    await connection.close()
    await clear.stop()
  }

  @Test func clearTextIsForThisMachine() async throws {
    // An address of documentation (RFC 5737): nothing is sent there.
    let connection = try SIMPConnection(to: "192.0.2.1", token: "t", configuration: .clear)
    let error = await failure(of: connection)
    #expect(error?.code == .untrusted && error?.message.contains("another machine") == true)
    // Forced, the attempt is made; nobody answers.
    var configuration = SIMPConnection.Configuration()
    configuration.tls = .off(evenBeyondLoopback: true)
    configuration.connectTimeout = .milliseconds(100)
    let forced = try SIMPConnection(to: "192.0.2.1", token: "t", configuration: configuration)
    #expect(await failure(of: forced)?.code == .connectFailed)
    await forced.close()
  }

  @Test func trustThatCannotBeReadIsToldAtOnce() async {
    for tls in [
      SIMPConnection.Configuration.TLS.pinned("sha256:123"), .pinned(""), .certificateAuthority("/nonexistent/ca.pem"),
      .certificateAuthority("/dev/null"),
    ] {
      var configuration = SIMPConnection.Configuration()
      configuration.tls = tls
      let code = await code { _ = try SIMPConnection(to: "127.0.0.1", token: "t", configuration: configuration) }
      #expect(code == .invalidTrust, "\(tls)")
    }
  }

  @Test func reconnectingResumes() async throws {
    let first = try await SDKServer.start()
    let alice = try first.connection("alice")
    try await alice.connected()
    #expect(alice.statistics.resumed == 0)
    // The same trust and server: another connection of this program resumes, too.
    let bob = try first.connection("bob")
    try await bob.connected()
    #expect(bob.statistics.resumed == 1)
    await bob.close()

    // The server comes back with other keys for its tickets: a full handshake, and nothing is lost by it.
    let states = alice.states
    await first.stop()
    await alice.wait(for: states) { $0.isReconnecting }
    let second = try await SDKServer.start(in: first.directory, port: first.port)
    await alice.wait(for: states) { $0.isConnected }
    #expect(alice.statistics.logins == 2 && alice.statistics.resumed == 0)
    await alice.close()
    await second.stop()
  }

  @Test func aServerThatWasGoodIsWaitedForWhenItsKeyIsAnother() async throws {
    let first = try await SDKServer.start()
    let connection = try first.connection("alice")
    let states = connection.states
    try await connection.connected()
    await first.stop()
    await connection.wait(for: states) { $0.isReconnecting }
    let other = try await SDKServer.start(port: first.port)
    let seen = await connection.wait(for: states) {
      if case .reconnecting(_, _, let reason) = $0 { reason.code == .untrusted } else { $0.isClosed }
    }
    #expect(seen.last?.isReconnecting == true)
    await other.stop()
    let back = try await SDKServer.start(in: first.directory, port: first.port)
    await connection.wait(for: states) { $0.isConnected }
    await connection.close()
    await back.stop()
  }
}
