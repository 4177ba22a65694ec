internal import CSimpLinux
internal import Glibc

/// Bytes on their way to a stream socket, in one piece, so that one system call takes as much as the kernel has room for.
struct SendBuffer {
  /// A larger allocation is given back once everything is sent: most connections are idle most of the time.
  private static let keptCapacity = 16 * 1024

  enum Outcome: Equatable {
    case sent
    case blocked
    case failed(Int32)
  }

  var bytes: [UInt8] = []
  private var head = 0

  var count: Int { bytes.count - head }

  /// Sends until everything is out or the kernel takes no more.
  mutating func send(to fd: Int32) -> Outcome {
    while head < bytes.count {
      // SAFETY: the kernel reads `bytes[head...]` during the call only.
      let sent = unsafe bytes.withUnsafeBufferPointer { buffer in
        unsafe simp_tcp_send(fd, buffer.baseAddress! + head, buffer.count - head)
      }
      if sent < 0 {
        guard sent == Int64(-EAGAIN) else { return .failed(Int32(-sent)) }
        // What is sent goes when it is the larger part, so that each byte is moved once at most.
        if head > bytes.count / 2 {
          bytes.removeSubrange(..<head)
          head = 0
        }
        return .blocked
      }
      head += Int(sent)
    }
    clear()
    return .sent
  }

  mutating func clear() {
    head = 0
    if bytes.capacity > SendBuffer.keptCapacity { bytes = [] } else { bytes.removeAll(keepingCapacity: true) }
  }
}
