import SimpConnection
import Testing

extension SIMPConnection {
  /// The next `count` messages.
  func take(_ count: Int) async throws -> [SIMPMessage] {
    var taken: [SIMPMessage] = []
    for try await message in messages {
      taken.append(message)
      if taken.count == count { break }
    }
    return taken
  }

  /// Waits for a state that fits, and gives all states up to it.
  @discardableResult
  func wait(for states: States? = nil, until fits: (SIMPState) -> Bool) async -> [SIMPState] {
    var seen: [SIMPState] = []
    for await state in states ?? self.states {
      seen.append(state)
      if fits(state) { break }
    }
    return seen
  }
}

extension SIMPConnection.Configuration {
  /// For servers of a test that speak clear text.
  static var clear: SIMPConnection.Configuration {
    var configuration = SIMPConnection.Configuration()
    configuration.tls = .off()
    return configuration
  }
}

extension SIMPState {
  var isPathUp: Bool { if case .pathUp = self { true } else { false } }
  var isConnected: Bool { if case .connected = self { true } else { false } }
  var isReconnecting: Bool { if case .reconnecting = self { true } else { false } }
  var isClosed: Bool { if case .closed = self { true } else { false } }
}

/// The error that `body` throws.
func code(of body: () async throws -> Void) async -> SIMPError.Code? {
  do {
    try await body()
    return nil
  } catch {
    return (error as? SIMPError)?.code
  }
}

/// Two users, connected and with their paths up; `bob` receives.
func withPair<Value>(
  _ server: SDKServer, configure: (inout SIMPConnection.Configuration) -> Void = { _ in },
  _ body: (_ alice: SIMPConnection, _ bob: SIMPConnection) async throws -> Value
) async throws -> Value {
  let alice = try server.connection("alice", configure)
  let bob = try server.connection("bob", configure)
  do {
    try await alice.connected()
    try await bob.connected()
    let value = try await body(alice, bob)
    await alice.close()
    await bob.close()
    return value
  } catch {
    await alice.close()
    await bob.close()
    throw error
  }
}
