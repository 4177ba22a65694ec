internal import Glibc
internal import SimpIO
internal import SimpSupport

/// Lines of standard input, read on a thread of its own and only when asked for: whoever is slow slows the writer down.
///
/// A read that was begun cannot be taken back; the process ends with it.
final class StandardInput: Sendable {
  private struct State {
    var splitter = LineSplitter()
    var isReading = false
    var isAtEnd = false
    var ready: [LineSplitter.Line] = []
    var failure: String?
  }

  private let thread: EventLoop
  private let state = Locked(State())
  private let gate = Gate()
  private let descriptor: Int32

  init(descriptor: Int32 = 0) throws(IOError) {
    self.descriptor = descriptor
    thread = try EventLoop()
    thread.startThread(name: "stdin")
  }

  /// Why reading ended before the end of the input, nil if it did not.
  var failure: String? { state.withLock { $0.failure } }

  /// The next lines, as many as one read brings, at least one.
  ///
  /// - Returns: nil at the end of the input, or when the task is cancelled.
  func next() async -> [LineSplitter.Line]? {
    while !Task.isCancelled {
      let (lines, isOver, reads) = state.withLock { state in
        let lines = state.ready
        state.ready = []
        let isOver = lines.isEmpty && state.isAtEnd
        let reads = lines.isEmpty && !isOver && !state.isReading
        if reads { state.isReading = true }
        return (lines, isOver, reads)
      }
      if isOver { return nil }
      if !lines.isEmpty { return lines }
      if reads { thread.execute { self.read() } }
      await gate.wait()
    }
    return nil
  }

  private func read() {
    let (bytes, failure) = Self.read(descriptor)
    state.withLock { state in
      state.isReading = false
      if bytes.isEmpty {
        state.isAtEnd = true
        state.failure = failure
        if let line = state.splitter.finish() { state.ready.append(line) }
      } else {
        state.ready += state.splitter.take(bytes)
      }
    }
    gate.open()
  }

  /// What one read brings: nothing at the end, or with the reason when it failed.
  private static func read(_ descriptor: Int32) -> ([UInt8], String?) {
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while true {
      // SAFETY: reads into `chunk` only, which outlives the call.
      let count = unsafe chunk.withUnsafeMutableBytes { unsafe Glibc.read(descriptor, $0.baseAddress, $0.count) }
      if count >= 0 { return (Array(chunk[..<count]), nil) }
      switch errno {
      case EINTR: continue
      case EAGAIN:
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        // SAFETY: one entry, local.
        unsafe _ = poll(&entry, 1, -1)
      case let code: return ([], "cannot read standard input: \(SystemText.of(code))")
      }
    }
  }
}
