internal import CSimpLinux
internal import Glibc
internal import SimpCore

/// Datagrams on their way to a socket, one behind the other in one piece of memory.
struct DatagramQueue {
  /// BOUND: datagrams that wait while the kernel takes none. Old ones go first: what they carry is sent again anyway.
  static let limit = 4096
  /// A larger allocation is given back once the queue is empty.
  private static let keptCapacity = 1 << 20

  private var bytes: [UInt8] = []
  private var entries: [simp_outgoing] = []
  /// Those before it are gone.
  private var head = 0

  private(set) var sent: UInt64 = 0
  private(set) var dropped: UInt64 = 0
  private(set) var errors: UInt64 = 0

  var count: Int { entries.count - head }

  mutating func append(_ datagram: Span<UInt8>, to address: PeerAddress) {
    if count >= DatagramQueue.limit { dropOldest() }
    entries.append(simp_outgoing(to: address.kernel, offset: UInt32(bytes.count), count: UInt32(datagram.count)))
    bytes.append(copying: datagram)
  }

  /// Gives everything to the kernel.
  ///
  /// - Returns: false when it takes no more for now.
  mutating func send(to fd: Int32, family: PeerAddress.Family) -> Bool {
    while head < entries.count {
      // SAFETY: offsets and counts of the entries lie within `bytes`; both arrays stay in place during the call.
      let taken = unsafe entries.withUnsafeBufferPointer { entries in
        unsafe simp_udp_send(
          fd, Int32(family.rawValue), bytes, entries.baseAddress! + head, Int32(entries.count - head))
      }
      if taken > 0 {
        head += Int(taken)
        sent += UInt64(taken)
      } else if taken == -EAGAIN || taken == -ENOBUFS {
        return false
      } else {
        // The first of the batch is refused, or a report about an earlier one came in its place. It is gone like any
        // datagram that a network lost.
        head += 1
        errors += 1
      }
    }
    clear()
    return true
  }

  /// Drops what waits, uncounted.
  mutating func clear() {
    head = 0
    entries.removeAll(keepingCapacity: true)
    bytes.removeAll(keepingCapacity: bytes.capacity <= DatagramQueue.keptCapacity)
  }

  /// Everything that waits, as it would be sent; for tests.
  var waiting: [[UInt8]] {
    entries[head...].map { entry in Array(bytes[Int(entry.offset)..<Int(entry.offset + entry.count)]) }
  }

  private mutating func dropOldest() {
    head += 1
    dropped += 1
    guard head >= DatagramQueue.limit / 2 else { return }
    // The room of those that are gone is taken back, seldom enough that each byte is moved about twice.
    let start = head < entries.count ? entries[head].offset : UInt32(bytes.count)
    bytes.removeSubrange(..<Int(start))
    entries.removeSubrange(..<head)
    for index in entries.indices { entries[index].offset -= start }
    head = 0
  }
}
