internal import CSimpLinux
internal import Glibc
public import SimpCore

/// Finds the addresses behind a name.
///
/// Each lookup has a thread of its own: a name server that does not answer holds up neither other lookups nor the
/// closing of the loop.
public enum Resolver {
  /// More addresses than this behind one name are not looked at.
  static let addressLimit = 16

  /// Calls `completion` once, from the loop and never from inside this call: with at least one address, in the order
  /// the system prefers (RFC 6724), or with why not. Not called once the loop is closed.
  ///
  /// - Parameter host: a name, or an address (`127.0.0.1`, `::1`, `[::1]`, `fe80::1%eth0`), which needs no lookup.
  public static func resolve(
    host: String, port: UInt16, loop: EventLoop, completion: @escaping (Result<[PeerAddress], IOError>) -> Void
  ) {
    loop.preconditionCurrent()
    if let address = PeerAddress(literal: host, port: port) {
      return loop.later { completion(.success([address])) }
    }
    if host.isEmpty || host.utf8.contains(0) || host.utf8.contains(UInt8(ascii: "[")) {
      let error = IOError(code: EINVAL, operation: "look up", subject: "'\(host)'", detail: "this is not a host name")
      return loop.later { completion(.failure(error)) }
    }
    let lookup = Lookup(host: host, port: port, loop: loop, number: loop.enterLookup(completion))
    // SAFETY: the thread takes over the retain.
    let pointer = unsafe Unmanaged.passRetained(lookup).toOpaque()
    var thread: UInt64 = 0
    let status = unsafe simp_thread_start(
      "simp-lookup", 0, { raw in unsafe Unmanaged<Lookup>.fromOpaque(raw!).takeRetainedValue().run() }, pointer,
      &thread)
    guard status == 0 else {
      unsafe Unmanaged<Lookup>.fromOpaque(pointer).release()
      let error = IOError(code: -status, operation: "start a thread to look up", subject: "'\(host)'")
      return loop.later { loop.leaveLookup(lookup.number)?(.failure(error)) }
    }
    simp_thread_detach(thread)
  }
}

/// What goes to the thread. The completion stays with the loop, under `number`: it may hold what only the loop touches.
private final class Lookup: Sendable {
  let host: String
  let port: UInt16
  let loop: EventLoop
  let number: UInt64

  init(host: String, port: UInt16, loop: EventLoop, number: UInt64) {
    self.host = host
    self.port = port
    self.loop = loop
    self.number = number
  }

  func run() {
    let result = addresses()
    loop.execute { [loop, number] in loop.leaveLookup(number)?(result) }
  }

  private func addresses() -> Result<[PeerAddress], IOError> {
    var found = [simp_address](repeating: simp_address(), count: Resolver.addressLimit)
    // SAFETY: the C function fills at most `count` entries.
    let count = unsafe found.withUnsafeMutableBufferPointer { room in
      unsafe simp_resolve(host, room.baseAddress!, Int32(room.count))
    }
    if count > 0 {
      return .success(
        found[..<Int(count)].map { kernel in
          var address = PeerAddress(kernel)
          address.port = port
          return address
        })
    }
    // SAFETY: a static string for every code.
    let reason = count == 0 ? "it has no address" : unsafe String(cString: simp_resolve_error(count))
    return .failure(IOError(code: ENODATA, operation: "look up", subject: "'\(host)'", detail: reason))
  }
}
