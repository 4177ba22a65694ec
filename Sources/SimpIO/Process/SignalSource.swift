internal import CUV

/// Turns signals of the process into calls on a loop. For executables only: a library leaves signals alone.
///
/// Some thread of the process must not block the signals. Threads of `EventLoop.startThread` block all; the main
/// thread is the one left.
@safe
public final class SignalSource {
  private let loop: EventLoop
  private var handles: [UnsafeMutablePointer<uv_signal_t>] = unsafe []
  fileprivate var handler: ((Int32) -> Void)?

  /// Takes over `signals` for the process until `close()`; `handler` is called with the number of each that comes.
  ///
  /// - Throws: `IOError` for a signal that cannot be caught.
  public init(loop: EventLoop, signals: [Int32], handler: @escaping (Int32) -> Void) throws(IOError) {
    loop.preconditionCurrent()
    self.loop = loop
    self.handler = handler
    loop.register(self)
    for signal in signals {
      let handle = UnsafeMutablePointer<uv_signal_t>.allocate(capacity: 1)
      unsafe uv_signal_init(loop.uv, handle)
      // SAFETY: unretained; the handle is closed before this object goes, and its callback no longer comes then.
      unsafe handle.pointee.data = Unmanaged.passUnretained(self).toOpaque()
      unsafe handles.append(handle)
      let status = unsafe uv_signal_start(
        handle,
        { handle, signal in
          let source = unsafe Unmanaged<SignalSource>.fromOpaque(handle!.pointee.data).takeUnretainedValue()
          source.handler?(signal)
        }, signal)
      guard status == 0 else {
        close()
        throw IOError(code: -status, operation: "catch signal", subject: "\(signal)")
      }
    }
  }

  /// Gives the signals back. May be called twice.
  public func close() {
    handler = nil
    for index in unsafe handles.indices {
      // SAFETY: libuv uses the memory until the close callback, which frees it.
      unsafe handles[index].withMemoryRebound(to: uv_handle_t.self, capacity: 1) { handle in
        unsafe uv_close(handle) { handle in
          unsafe UnsafeMutableRawPointer(handle!).assumingMemoryBound(to: uv_signal_t.self).deallocate()
        }
      }
    }
    unsafe handles = []
    loop.unregister(self)
  }
}

extension SignalSource: LoopResource {}
