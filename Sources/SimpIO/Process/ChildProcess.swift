internal import CSimpLinux
internal import CUV
internal import Glibc

/// Another program, started in a session of its own: it lives on when this process dies, and terminal signals do not
/// reach it. Its input is empty.
@safe
public final class ChildProcess {
  /// How a program ended.
  public struct Status: Sendable, Equatable {
    /// Its exit code, 0 when a signal ended it.
    public var code: Int32
    /// The signal that ended it, or 0.
    public var signal: Int32

    public init(code: Int32, signal: Int32 = 0) {
      self.code = code
      self.signal = signal
    }
  }

  /// Where a program's output and error output go.
  public enum Output: Sendable, Equatable {
    case discarded
    case inherited
    /// Appended to the file at this path, which is made if need be (mode 0600).
    case file(String)
  }

  public let pid: Int32
  /// nil while it runs.
  public private(set) var status: Status?

  private let loop: EventLoop
  private let handle: UnsafeMutablePointer<uv_process_t>
  private var onExit: ((Status) -> Void)?
  private var isClosed = false

  /// Starts the program.
  ///
  /// - Parameters:
  ///   - program: a path, or a name to be found in PATH.
  ///   - arguments: those behind the program's own name.
  ///   - environment: all of its `NAME=value`; nil hands on our own.
  ///   - directory: where it starts; nil for our own.
  ///   - onExit: called once, from the loop, unless `close()` came first.
  /// - Throws: `IOError`; ENOENT when there is no such program.
  public init(
    loop: EventLoop, program: String, arguments: [String] = [], environment: [String]? = nil,
    directory: String? = nil, output: Output = .inherited, onExit: @escaping (Status) -> Void
  ) throws(IOError) {
    loop.preconditionCurrent()
    self.loop = loop
    self.onExit = onExit
    let outputFile = try ChildProcess.open(output)
    defer { if case .file = output { _ = simp_close(outputFile) } }
    unsafe handle = .allocate(capacity: 1)
    let process = unsafe handle
    let status = unsafe ChildProcess.withCStrings([program] + arguments) { arguments in
      unsafe ChildProcess.withCStrings(environment ?? []) { variables in
        unsafe ChildProcess.withCStrings(directory.map { [$0] } ?? []) { directory in
          unsafe ChildProcess.spawn(
            loop, process, arguments, environment == nil ? nil : variables, directory[0], outputFile)
        }
      }
    }
    pid = unsafe handle.pointee.pid
    // SAFETY: libuv uses the handle until its close callback, which gives back this retain and the memory, once.
    unsafe handle.pointee.data = Unmanaged.passRetained(self).toOpaque()
    loop.register(self)
    guard status == 0 else {
      close()
      throw IOError(code: -status, operation: "start", subject: program)
    }
  }

  private static func open(_ output: Output) throws(IOError) -> Int32 {
    switch output {
    case .discarded: return -1
    case .inherited: return 2
    case .file(let path):
      // SAFETY: the path is a C string for the call.
      let fd = unsafe simp_open_to_append(path)
      guard fd >= 0 else { throw IOError(code: -fd, operation: "open", subject: path) }
      return fd
    }
  }

  private static func spawn(
    _ loop: EventLoop, _ process: UnsafeMutablePointer<uv_process_t>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>,
    _ variables: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?, _ directory: UnsafePointer<CChar>?,
    _ outputFile: Int32
  ) -> Int32 {
    var streams = unsafe [uv_stdio_container_t](repeating: uv_stdio_container_t(), count: 3)
    for stream in 1...2 where outputFile >= 0 {
      unsafe streams[stream].flags = UV_INHERIT_FD
      unsafe streams[stream].data.fd = outputFile == 2 ? Int32(stream) : outputFile
    }
    var options = unsafe uv_process_options_t()
    unsafe options.file = UnsafePointer(arguments[0])
    unsafe options.args = arguments
    unsafe options.env = variables
    unsafe options.cwd = directory
    unsafe options.flags = UV_PROCESS_DETACHED.rawValue
    unsafe options.stdio_count = 3
    unsafe options.exit_cb = { handle, code, signal in
      let child = unsafe Unmanaged<ChildProcess>.fromOpaque(handle!.pointee.data).takeUnretainedValue()
      child.ended(Status(code: Int32(truncatingIfNeeded: code), signal: signal))
    }
    // SAFETY: libuv copies what it needs before `uv_spawn` returns; the exit callback comes from a later turn.
    return unsafe streams.withUnsafeMutableBufferPointer { streams in
      unsafe options.stdio = streams.baseAddress
      return unsafe uv_spawn(loop.uv, process, &options)
    }
  }

  /// An array of C strings with a null at its end, for the time of `body`.
  private static func withCStrings<R>(
    _ strings: [String], _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> R
  ) -> R {
    var pointers = unsafe strings.map { text in unsafe strdup(text) } + [nil]
    defer { for index in unsafe pointers.indices { unsafe Glibc.free(pointers[index]) } }
    return unsafe pointers.withUnsafeMutableBufferPointer { buffer in unsafe body(buffer.baseAddress!) }
  }

  private func ended(_ status: Status) {
    self.status = status
    let handler = onExit
    close()
    handler?(status)
  }

  /// Sends a signal, if the program still runs.
  public func kill(_ signal: Int32) {
    guard status == nil, !isClosed else { return }
    // An error means that it has just ended: its exit is on the way.
    unsafe uv_process_kill(handle, signal)
  }

  /// No longer waits for the program, which goes on running. May be called twice.
  public func close() {
    guard !isClosed else { return }
    isClosed = true
    onExit = nil
    unsafe handle.withMemoryRebound(to: uv_handle_t.self, capacity: 1) { handle in
      unsafe uv_close(handle) { handle in
        let child = unsafe Unmanaged<ChildProcess>.fromOpaque(handle!.pointee.data).takeRetainedValue()
        unsafe child.handle.deallocate()
      }
    }
    loop.unregister(self)
  }
}

extension ChildProcess: LoopResource {}
