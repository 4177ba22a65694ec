/// An IPv4 or IPv6 address and a port: where datagrams come from and go to. A value without pointers.
public struct PeerAddress: Hashable, Sendable {
  public enum Family: UInt8, Sendable {
    case v4 = 4
    case v6 = 6
  }

  public var family: Family
  public var port: UInt16
  /// The address in network order, read as big-endian numbers. IPv4 occupies the lowest 32 bits of `low`.
  public var high: UInt64
  public var low: UInt64
  /// The interface of a link-local IPv6 address, else 0.
  public var scope: UInt32

  public init(family: Family, high: UInt64, low: UInt64, port: UInt16, scope: UInt32 = 0) {
    self.family = family
    self.high = high
    self.low = low
    self.port = port
    self.scope = scope
  }

  public static func v4(_ a: UInt8, _ b: UInt8, _ c: UInt8, _ d: UInt8, port: UInt16) -> PeerAddress {
    let low = UInt64(a) << 24 | UInt64(b) << 16 | UInt64(c) << 8 | UInt64(d)
    return PeerAddress(family: .v4, high: 0, low: low, port: port)
  }

  public var isLoopback: Bool {
    switch family {
    case .v4: low >> 24 == 127
    case .v6: high == 0 && (low == 1 || low >> 24 == 0xFFFF_7F)
    }
  }

  /// The address alone, as RFC 5952 writes it except that no run of zeros is shortened beyond `::1` and `::`.
  public var host: String {
    switch family {
    case .v4:
      return "\(low >> 24 & 255).\(low >> 16 & 255).\(low >> 8 & 255).\(low & 255)"
    case .v6:
      if high == 0 && low <= 1 { return low == 1 ? "::1" : "::" }
      let groups = [high, low].flatMap { half in [48, 32, 16, 0].map { half >> UInt64($0) & 0xFFFF } }
      let text = groups.map { String($0, radix: 16) }.joined(separator: ":")
      return scope == 0 ? text : "\(text)%\(scope)"
    }
  }
}

extension PeerAddress: CustomStringConvertible {
  /// `127.0.0.1:7468`, `[::1]:7468`.
  public var description: String { family == .v4 ? "\(host):\(port)" : "[\(host)]:\(port)" }
}
