import Glibc
import SimpCore
import SimpIO
import Testing

@Suite struct SignalSourceTests {
  @Test func signalsBecomeCalls() throws {
    var seen: [Int32] = []
    try withLoop { loop in
      let source = try SignalSource(loop: loop, signals: [SIGUSR1, SIGUSR2]) { signal in
        seen.append(signal)
        if seen.count == 1 { kill(getpid(), SIGUSR2) } else { loop.stop() }
      }
      _ = source
      kill(getpid(), SIGUSR1)
    }
    #expect(seen == [SIGUSR1, SIGUSR2])
  }

  @Test func whatCannotBeCaughtIsAnError() throws {
    let loop = try EventLoop()
    defer { loop.close() }
    #expect(throws: IOError.self) { _ = try SignalSource(loop: loop, signals: [SIGKILL]) { _ in } }
  }

  @Test func closedItGivesTheSignalBack() async {
    await #expect(processExitsWith: .signal(SIGUSR1)) {
      let loop = try EventLoop()
      let source = try SignalSource(loop: loop, signals: [SIGUSR1]) { _ in }
      source.close()
      source.close()
      loop.close()
      kill(getpid(), SIGUSR1)
      // Another thread takes it; this one must not end the process before. 10 s are for a signal that does nothing.
      sleep(10)
    }
  }
}
