import Glibc

/// Ports for servers that are stopped and started again on the same one.
public enum FreePort {
  /// A TCP port that nobody has on 127.0.0.1, below those that the system gives out by itself: while the server is away
  /// none of the connections and servers beside it gets it.
  public static func tcp() -> UInt16 {
    while true {
      let port = UInt16.random(in: 10_000..<32_000)
      if isFree(port) { return port }
    }
  }

  private static func isFree(_ port: UInt16) -> Bool {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    // SAFETY: `address` outlives the call, and its size is told.
    let status = unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
        unsafe bind(descriptor, pointer, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    return status == 0
  }
}
