internal import SimpConnection
internal import SimpIO
internal import SimpSupport

/// The frame around a command that needs a connection: connects, tells how that goes, runs the command until it ends or
/// a signal comes, says goodbye.
struct Session: Sendable {
  private let access: Access
  private let sendsOnly: Bool
  private let isQuiet: Bool
  private let isVerbose: Bool
  private let acknowledgement: SIMPConnection.Configuration.Acknowledgement
  private let undone: String?

  /// - Parameter undone: what a signal that comes before there is a connection leaves undone, for a person: the command
  ///   has not begun then, and cannot say it. nil when nothing is.
  init(
    _ access: Access, sendsOnly: Bool, isQuiet: Bool, isVerbose: Bool,
    acknowledgement: SIMPConnection.Configuration.Acknowledgement = .automatic, undone: String? = nil
  ) {
    self.access = access
    self.sendsOnly = sendsOnly
    self.isQuiet = isQuiet
    self.isVerbose = isVerbose
    self.acknowledgement = acknowledgement
    self.undone = undone
  }

  /// - Parameters:
  ///   - endsBySignal: a signal is the usual end: status 0 instead of 128 + signal.
  ///   - body: gets the connected connection; its result is the exit status. It is cancelled by a signal, says what
  ///     that left undone, and its result then does not count.
  /// - Returns: the exit status.
  func run(
    endsBySignal: Bool = false, _ body: @escaping @Sendable (SIMPConnection) async throws -> Int32
  ) async -> Int32 {
    do {
      let interrupts = try Interrupts()
      var access = access
      access.configuration.acknowledgement = acknowledgement
      let connection = try access.connection(sendsOnly: sendsOnly)
      let watcher = Task { [connection] in await watch(connection.states) }
      let (status, signal) = await interrupts.watch { await attempt(connection, body) }
      let line = connection.statistics.line
      await connection.close()
      await watcher.value
      if isVerbose, let line { Terminal.say(line) }
      guard let signal else { return status }
      return endsBySignal ? ExitCode.ok : 128 + signal
    } catch let error as SIMPError {
      Terminal.say(error.advice)
      return error.exitCode
    } catch {
      Terminal.say("simp: \(error)")
      return ExitCode.failed
    }
  }

  private func attempt(
    _ connection: SIMPConnection, _ body: @Sendable (SIMPConnection) async throws -> Int32
  ) async -> Int32 {
    var hasBegun = false
    do {
      try await connection.connected()
      hasBegun = true
      return try await body(connection)
    } catch let error as SIMPError {
      if error.code != .cancelled {
        Terminal.say(error.advice)
      } else if !hasBegun, let undone {
        Terminal.say("simp: \(undone): interrupted")
      }
      return error.exitCode
    } catch {
      Terminal.say("simp: \(error)")
      return ExitCode.failed
    }
  }

  /// Tells a person how the connection stands: an interruption and its end; every state with `--verbose`.
  private func watch(_ states: SIMPConnection.States) async {
    var isInterrupted = false
    for await state in states {
      if isVerbose {
        Terminal.say(state.line)
        continue
      }
      switch state {
      case .reconnecting(_, _, let reason) where !isInterrupted:
        isInterrupted = true
        if !isQuiet { Terminal.say("simp: \(printable(reason.message)); trying again") }
      case .connected where isInterrupted:
        isInterrupted = false
        if !isQuiet { Terminal.say("simp: connected") }
      default: break
      }
    }
  }
}

/// `12.5 %`.
private func percent(_ share: Double) -> String { fixed(share * 100, digits: 1) + " %" }

extension SIMPStatistics {
  /// How its datagrams fared, in one line for `--verbose`; nil when there were none.
  var line: String? {
    guard datagramsSent > 0 else { return nil }
    var parts = ["\(datagramsSent) datagrams sent, \(datagramsReceived) received"]
    if let rtt, let minimumRTT {
      parts.append("round trip \(DurationText.describe(rtt)), at best \(DurationText.describe(minimumRTT))")
    }
    parts.append(
      "\(datagramsLost) taken for lost" + (datagramsSpurious > 0 ? ", \(datagramsSpurious) of them late only" : ""))
    if retransmitted > 0 { parts.append("\(retransmitted) messages sent again") }
    if redundantCopies > 0 { parts.append("\(redundantCopies) twice to be safe") }
    if escalated > 0 { parts.append("\(escalated) by tcp as well") }
    if probeTimeouts > 0 { parts.append("\(probeTimeouts) probes") }
    return "udp: " + parts.joined(separator: "; ")
  }
}

extension SIMPState {
  /// One line for `--verbose`.
  var line: String {
    switch self {
    case .connecting: "connecting"
    case .connected(let session):
      "connected as \(session.user), device \(session.deviceNumber), node \(printable(session.node)), "
        + "datagrams \(session.cipher ?? "off"), \(session.tls ?? "TLS off")"
    case .pathUp(let address, let rtt):
      "udp path up, seen as \(printable(address))" + (rtt.map { ", round trip \(DurationText.describe($0))" } ?? "")
    case .pathDegraded(let to, let from):
      "udp path degraded: \(percent(to)) of the last datagrams lost towards the server, \(percent(from)) from it"
    case .pathDown: "udp path down: everything goes by tcp"
    case .reconnecting(let attempt, let delay, let reason):
      "\(printable(reason.message)); attempt \(attempt) in \(DurationText.describe(delay))"
    case .tokenExpiring(let left): "the token is over in \(DurationText.describe(left))"
    case .tokenRenewed(let lifetime):
      "token renewed" + (lifetime.map { ", good for \(DurationText.describe($0))" } ?? "")
    case .storeFailed(let error): "\(printable(error.message)); what comes waits"
    case .closed(let error): error.map { "closed: \(printable($0.message))" } ?? "closed"
    }
  }
}
