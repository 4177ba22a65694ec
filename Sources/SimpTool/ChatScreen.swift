internal import SimpConnection
internal import SimpSupport

/// A chat's output: on a terminal with a prompt that a message which comes goes before, else a message a line.
final class ChatScreen: Sendable {
  let isTerminal = Terminal.standardInputIsTerminal && Terminal.standardOutputIsTerminal
  private let output = Output()

  func prompt() { if isTerminal { Log.standardError("> ") } }

  /// - Returns: false when nothing can be printed any more.
  func show(_ message: SIMPMessage) -> Bool {
    guard isTerminal else { return output.line("\(message.from): \(printable(MessageText.plain(message)))") }
    // The terminal keeps what is typed meanwhile: it is sent with the line, though not shown again.
    let isShown = output.line("\r\u{1B}[K" + MessageText.terminal(message))
    prompt()
    return isShown
  }

  func status(_ code: Int32) -> Int32 { output.status(code) }
}
