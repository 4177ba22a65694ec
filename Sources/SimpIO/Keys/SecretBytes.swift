internal import CSimpLinux

/// Bytes that nobody should find after they were needed: never copied, and overwritten before their memory goes back.
@safe
final class SecretBytes {
  let count: Int
  private let storage: UnsafeMutablePointer<UInt8>
  private let onRelease: ReleaseObserver?

  /// Sees the storage of secrets at the last moment, after they were overwritten: for tests.
  typealias ReleaseObserver = ([UInt8]) -> Void

  /// - Parameter fill: writes all `count` bytes.
  init(count: Int, onRelease: ReleaseObserver? = nil, fill: (UnsafeMutablePointer<UInt8>) -> Void) {
    self.count = count
    self.onRelease = onRelease
    // SAFETY: owned by this object alone, for as long as it lives.
    unsafe storage = .allocate(capacity: count)
    unsafe storage.initialize(repeating: 0, count: count)
    unsafe fill(storage)
  }

  deinit {
    unsafe simp_wipe(storage, count)
    if let onRelease { unsafe onRelease(Array(UnsafeBufferPointer(start: storage, count: count))) }
    unsafe storage.deallocate()
  }

  subscript(index: Int) -> UInt8 {
    precondition(index >= 0 && index < count, "outside the secret")
    return unsafe storage[index]
  }

  /// - Parameter body: may use the pointer until it returns, and must leave no copy.
  func withBytes<Result>(_ body: (UnsafePointer<UInt8>) -> Result) -> Result {
    unsafe body(UnsafePointer(storage))
  }
}
