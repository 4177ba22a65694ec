public import Glibc
internal import SimpCore

/// The signals that ask a program to stop, as something a task can wait for. For executables only.
///
/// A second signal, at least 0.5 s after the first (one stop often arrives twice), ends the process at once with status
/// 128 + signal, whatever it hangs in.
///
/// `@unchecked Sendable`: `source` is made before the loop's thread starts and kept alive only; the rest is constant or
/// locked.
public final class Interrupts: @unchecked Sendable {
  private let loop: EventLoop
  private let stream: AsyncStream<Int32>
  private var source: SignalSource?

  /// Takes over the signals for the rest of the process, on a thread of its own.
  ///
  /// - Parameter beforeExit: called before a second signal ends the process.
  /// - Throws: `IOError` when there are no descriptors left.
  public init(
    _ signals: [Int32] = [SIGINT, SIGTERM, SIGHUP], beforeExit: @escaping () -> Void = {}
  ) throws(IOError) {
    let loop = try EventLoop()
    let (stream, continuation) = AsyncStream.makeStream(of: Int32.self)
    self.loop = loop
    self.stream = stream
    var first: Instant?
    source = try SignalSource(loop: loop, signals: signals) { signal in
      if let first, loop.now - first > .milliseconds(500) {
        beforeExit()
        exit(128 + signal)
      }
      if first == nil {
        first = loop.now
        continuation.yield(signal)
      }
    }
    loop.startThread(name: "signals")
  }

  /// Runs `body`, in a task that is cancelled when a signal comes.
  ///
  /// - Returns: what `body` returned, and the signal if one came first. One program calls this once at a time.
  public func watch<Value: Sendable>(
    _ body: @escaping @Sendable () async -> Value
  ) async -> (value: Value, signal: Int32?) {
    let work = Task { await body() }
    let watcher = Task { [stream] () -> Int32? in
      for await signal in stream {
        work.cancel()
        return signal
      }
      return nil
    }
    let value = await work.value
    watcher.cancel()
    return (value, await watcher.value)
  }
}
