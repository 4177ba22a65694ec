internal import CSimpLinux

/// The buffers that sockets of one loop read into, one after the other: what a handler is shown is gone when it returns.
@safe
final class ReadScratch {
  static let streamBytes = 64 * 1024
  /// Room for a datagram of any path without jumbo frames; longer ones are counted and dropped.
  static let datagramBytes = 2048

  let stream: UnsafeMutableBufferPointer<UInt8>
  private var batch: OpaquePointer?

  init() { unsafe stream = .allocate(capacity: ReadScratch.streamBytes) }

  deinit {
    unsafe stream.deallocate()
    unsafe simp_receive_batch_free(batch)
  }

  /// Made when the first datagram socket asks.
  var datagrams: OpaquePointer {
    if let made = unsafe batch { return unsafe made }
    let made = unsafe simp_receive_batch_new(ReadScratch.datagramBytes)!
    unsafe batch = made
    return unsafe made
  }
}
