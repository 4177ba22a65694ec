internal import SimpConnection
internal import SimpIO
internal import SimpSupport

/// Messages that were printed and wait for their id on standard input, for `simp listen --ack manual`.
final class ShownMessages: Sendable {
  // BOUND: the connection hands out no more than its room before they are acknowledged.
  /// Several senders may have the same id.
  private let open = Locked<[String: [SIMPMessage]]>([:])

  func add(_ message: SIMPMessage) { open.withLock { $0["\(message.id)", default: []].append(message) } }

  /// Reads ids, a line each, and acknowledges the oldest message with that id. When the input ends nothing is
  /// acknowledged any more, and listening goes on.
  ///
  /// - Returns: never, but when it is cancelled.
  func acknowledge(_ input: StandardInput) async -> Int32 {
    while let lines = await input.next() {
      for case .text(let line) in lines where !line.isEmpty {
        guard let message = take(line) else {
          Terminal.say("simp: no message with the id \(printable(line)) waits to be acknowledged")
          continue
        }
        message.acknowledge()
      }
    }
    while (try? await Task.sleep(for: .seconds(3600))) != nil {}
    return ExitCode.ok
  }

  private func take(_ id: String) -> SIMPMessage? {
    open.withLock { open in
      guard let message = open[id]?.first else { return nil }
      open[id]?.removeFirst()
      if open[id]?.isEmpty == true { open[id] = nil }
      return message
    }
  }
}
