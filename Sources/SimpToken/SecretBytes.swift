import Glibc

/// Bytes that are overwritten when nobody needs them any more. A value to pass around freely: copies share one buffer.
struct SecretBytes: Sendable {
  private let storage: Storage

  init(_ bytes: [UInt8]) { storage = Storage(bytes) }

  var count: Int { unsafe storage.bytes.count }

  func withBytes<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
    unsafe body(UnsafeBufferPointer(storage.bytes))
  }

  /// A copy; whoever takes it wipes it.
  var copy: [UInt8] { unsafe Array(storage.bytes) }

  /// Owns the bytes outside of any array, so that no copy-on-write leaves a second one behind.
  ///
  /// `@unchecked Sendable`: the bytes are written in `init` and `deinit` only, where there is one owner.
  @safe
  private final class Storage: @unchecked Sendable {
    let bytes: UnsafeMutableBufferPointer<UInt8>

    init(_ source: [UInt8]) {
      // SAFETY: allocated here, initialised whole, freed in `deinit` alone.
      unsafe bytes = .allocate(capacity: source.count)
      _ = unsafe bytes.initialize(from: source)
    }

    deinit {
      if let start = unsafe bytes.baseAddress { unsafe explicit_bzero(start, bytes.count) }
      unsafe bytes.deallocate()
    }
  }
}

extension [UInt8] {
  /// Overwrites the contents in a way that the optimiser keeps.
  mutating func wipe() {
    // SAFETY: the buffer is the array's own, for the length of the call.
    unsafe withUnsafeMutableBytes { buffer in
      if let start = buffer.baseAddress { unsafe explicit_bzero(start, buffer.count) }
    }
  }
}
