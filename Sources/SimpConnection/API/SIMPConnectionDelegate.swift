/// Is told what happens on a connection, for programs that prefer calls to sequences. Calls come one after the other,
/// from no particular thread.
public protocol SIMPConnectionDelegate: AnyObject, Sendable {
  func connection(_ connection: SIMPConnection, didReceive message: SIMPMessage)
  func connection(_ connection: SIMPConnection, didChange state: SIMPState)
}

extension SIMPConnectionDelegate {
  public func connection(_ connection: SIMPConnection, didChange state: SIMPState) {}
}

extension SIMPConnection {
  /// Connects `user` to a server and tells `delegate` what happens, until the connection is closed, or delegate or
  /// connection are let go of. Whoever uses this does not read `messages` besides.
  ///
  /// - Parameters:
  ///   - token: the user's; a server that knows its bearer by another name ends the connection with `tokenInvalid`.
  ///   - delegate: not kept alive.
  /// - Throws: as `init`; `invalidName`.
  public static func connection(
    toRemoteHost host: String, port: Int, forUser user: String, token: String,
    delegate: any SIMPConnectionDelegate, configuration: Configuration = Configuration()
  ) throws(SIMPError) -> SIMPConnection {
    guard let port = UInt16(exactly: port), port > 0 else {
      throw SIMPError(.invalidAddress, "\(port) is not a port: 1 to 65535")
    }
    let address = host.contains(":") && !host.hasPrefix("[") ? "[\(host)]:\(port)" : "\(host):\(port)"
    let connection = try SIMPConnection(to: address, token: token, configuration: configuration)
    let pump = DelegatePump(connection: connection, delegate: delegate, user: user)
    Task { [states = connection.states] in await pump.run(states) }
    Task { [messages = connection.messages] in await pump.run(messages) }
    connection.start()
    return connection
  }
}

/// Carries what the sequences bring to the delegate, holding neither delegate nor connection in between.
private actor DelegatePump {
  private weak var connection: SIMPConnection?
  private weak var delegate: (any SIMPConnectionDelegate)?
  private let user: String

  init(connection: SIMPConnection, delegate: any SIMPConnectionDelegate, user: String) {
    self.connection = connection
    self.delegate = delegate
    self.user = user
  }

  func run(_ states: SIMPConnection.States) async {
    for await state in states {
      guard let connection, let delegate else { return }
      if case .connected(let session) = state, session.user != user {
        let error = SIMPError(.tokenInvalid, "the token belongs to \(session.user), not to \(user)")
        connection.driver.execute { $0.end(error) }
        continue
      }
      delegate.connection(connection, didChange: state)
    }
  }

  func run(_ messages: SIMPConnection.Messages) async {
    do throws(SIMPError) {
      for try await message in messages {
        guard let connection, let delegate else { return }
        delegate.connection(connection, didReceive: message)
      }
    } catch {
      // The state `closed` tells it.
    }
  }
}
