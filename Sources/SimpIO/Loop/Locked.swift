internal import CSimpLinux

/// A value behind a lock, from any thread. Not recursive.
///
/// Stands in for `Synchronization.Mutex`, with the same `withLock`. On Linux the contended path of that one lies in
/// the standard library, where the thread sanitizer does not see it: it then reports races that are none. Under
/// contention it also spins long before it sleeps.
///
/// `@unchecked Sendable`: `value` is touched only between `take` and `give` of its own lock, and goes in and out only
/// as `sending`.
public final class Locked<Value>: @unchecked Sendable {
  @usableFromInline let lock = Lock()
  @usableFromInline var value: Value

  /// - Parameter value: of a type that takes room. One without size (`Void`) would share an address with the object's
  ///   header, which the thread sanitizer takes for a race.
  public init(_ value: consuming sending Value) {
    precondition(MemoryLayout<Value>.size > 0, "a lock needs a value that takes room")
    self.value = value
  }

  /// Runs `body` with the value to itself, and returns what it returns. `body` must not wait for another lock user.
  @inlinable
  public func withLock<Result, Failure: Error>(
    _ body: (inout sending Value) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    lock.take()
    defer { lock.give() }
    return try body(&value)
  }
}

/// The lock of a `Locked`.
@safe
@usableFromInline
final class Lock: @unchecked Sendable {
  private let pointer: OpaquePointer

  init() { unsafe pointer = simp_lock_new() }

  deinit { unsafe simp_lock_free(pointer) }

  @usableFromInline func take() { unsafe simp_lock_take(pointer) }

  @usableFromInline func give() { unsafe simp_lock_give(pointer) }
}
