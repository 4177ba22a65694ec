internal import SimpConnection
internal import SimpIO
internal import SimpSupport

/// `simp chat USER`.
enum ChatCommand {
  static let subcommand = Subcommand(
    "chat", words: "USER", wordCount: 1...1, summary: "sends what you type, prints what comes",
    flags: Access.flags + [
      Flag("timeout", placeholder: "TIME", default: "30s", help: "wait that long for receipts at the end"),
      Flag("verbose", short: "v", help: "the connection's states on standard error"),
    ],
    notes: """
      Ctrl-D ends it once everything is delivered; status 6 when something is not. Messages of others than USER
      are shown too, with their names.
      """
  ) { settings, words throws(UsageError) in
    let user = words[0]
    try UsageError.checkUser(user)
    let access = try Access(settings)
    let timeout = try settings.duration("timeout") ?? .seconds(30)
    let session = Session(
      access, sendsOnly: false, isQuiet: false, isVerbose: try settings.isOn("verbose"), acknowledgement: .manual)
    return await session.run { connection in
      let screen = ChatScreen()
      if screen.isTerminal { Terminal.say("Chatting with \(user). Ctrl-D ends it.") }
      let input = try StandardInput()
      return try await withThrowingTaskGroup(of: Int32.self) { group in
        group.addTask { try await show(connection, on: screen) }
        group.addTask { try await send(connection, input, to: user, timeout: timeout, screen) }
        defer { group.cancelAll() }
        return try await group.next() ?? ExitCode.ok
      }
    }
  }

  private static func show(_ connection: SIMPConnection, on screen: ChatScreen) async throws(SIMPError) -> Int32 {
    var messages = connection.messages.makeAsyncIterator()
    while let message = try await messages.next() {
      guard screen.show(message) else { return ExitCode.failed }
      message.acknowledge()
    }
    return ExitCode.ok
  }

  private static func send(
    _ connection: SIMPConnection, _ input: StandardInput, to user: String, timeout: Duration, _ screen: ChatScreen
  ) async throws -> Int32 {
    let problems = Problems()
    screen.prompt()
    while let lines = await input.next() {
      for line in lines {
        guard case .text(let text) = line else {
          problems.note("a line is too long, or not UTF-8")
          continue
        }
        do throws(SIMPError) {
          let receipt = try await post(text, to: user, connection)
          Task { await follow(receipt, text, problems) }
        } catch {
          guard [.invalidText, .tooLarge].contains(error.code) else { throw error }
          problems.note(error.message)
        }
      }
      screen.prompt()
    }
    if Task.isCancelled { return ExitCode.notDelivered }
    do throws(SIMPError) {
      try await connection.drain(timeout: timeout)
    } catch {
      guard error.code != .cancelled else { return ExitCode.notDelivered }
      problems.note(error.message)
    }
    return screen.status(problems.isEmpty ? ExitCode.ok : ExitCode.notDelivered)
  }

  private static func post(
    _ text: String, to user: String, _ connection: SIMPConnection
  ) async throws(SIMPError) -> SIMPReceipt {
    while true {
      do throws(SIMPError) {
        return try connection.post(text, to: user)
      } catch {
        guard error.code == .outboxFull else { throw error }
        // Somebody pastes a book: waits until all of what was sent before is done.
        try await connection.drain(timeout: .seconds(3600))
      }
    }
  }

  private static func follow(_ receipt: SIMPReceipt, _ text: String, _ problems: Problems) async {
    do throws(SIMPError) {
      _ = try await receipt.delivered
    } catch {
      // The end of the connection is told once, by the command itself.
      if error.code == .rejected || error.code == .expired {
        problems.note("\(quoted(String(text.prefix(40)))) is not delivered: \(error.message)")
      }
    }
  }
}

/// What went wrong in a chat; each told when it happens.
private final class Problems: Sendable {
  private let count = Locked(0)

  var isEmpty: Bool { count.withLock { $0 == 0 } }

  func note(_ text: String) {
    count.withLock { $0 += 1 }
    Terminal.say("simp: \(printable(text))")
  }
}
