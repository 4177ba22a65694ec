import Glibc

/// A value behind a lock, from any thread. Not recursive.
///
/// A pthread mutex, because the thread sanitizer does not see the contended path of `Synchronization.Mutex` and then
/// reports races that are none.
///
/// `@unchecked Sendable`: `value` is touched only while the mutex is held.
@safe
final class Guarded<Value>: @unchecked Sendable {
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private var value: Value

  init(_ value: consuming sending Value) {
    // SAFETY: allocated and initialised here, destroyed and freed in `deinit` alone.
    unsafe mutex = .allocate(capacity: 1)
    let status = unsafe pthread_mutex_init(mutex, nil)
    precondition(status == 0, "a mutex cannot be made")
    self.value = value
  }

  deinit {
    unsafe pthread_mutex_destroy(mutex)
    unsafe mutex.deallocate()
  }

  /// Runs `body` with the value to itself. `body` must not come back to this lock.
  func withLock<Result>(_ body: (inout Value) -> Result) -> Result {
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    return body(&value)
  }
}
