internal import CSimpLinux
public import SimpCore

extension PeerAddress {
  /// 0.0.0.0 or [::]: bound to it, a socket takes what comes to any address of the machine. An IPv6 socket bound so
  /// takes IPv4 as well, and shows such peers as IPv4.
  public static func any(_ family: Family = .v4, port: UInt16) -> PeerAddress {
    PeerAddress(family: family, high: 0, low: 0, port: port)
  }

  /// 127.0.0.1 or [::1].
  public static func loopback(_ family: Family = .v4, port: UInt16) -> PeerAddress {
    PeerAddress(family: family, high: 0, low: family == .v4 ? 0x7F00_0001 : 1, port: port)
  }

  /// Reads an address without asking a name server: `127.0.0.1`, `::1`, `[::1]`, `fe80::1%eth0`.
  ///
  /// - Returns: nil when `literal` is not an address (it may be a name).
  public init?(literal: String, port: UInt16) {
    var text = Substring(literal)
    if text.hasPrefix("[") && text.hasSuffix("]") {
      text = text.dropFirst().dropLast()
      guard text.contains(":") else { return nil }
    }
    guard !text.isEmpty, !text.utf8.contains(0) else { return nil }
    var parsed = simp_address()
    // SAFETY: the text is a C string for the call, and `parsed` outlives it.
    guard unsafe simp_address_parse(String(text), &parsed) == 0 else { return nil }
    self.init(parsed)
    self.port = port
  }

  init(_ kernel: simp_address) {
    self.init(
      family: kernel.family == 4 ? .v4 : .v6, high: kernel.high, low: kernel.low, port: kernel.port,
      scope: kernel.scope)
  }

  var kernel: simp_address {
    simp_address(high: high, low: low, scope: scope, port: port, family: family.rawValue)
  }

  /// Where descriptor `fd` is bound.
  static func local(of fd: Int32) -> PeerAddress {
    var address = simp_address()
    // SAFETY: `address` outlives the call. A failure (the socket was reset) leaves 0.0.0.0:0.
    guard unsafe simp_local_address(fd, &address) == 0 else { return .any(port: 0) }
    return PeerAddress(address)
  }
}
