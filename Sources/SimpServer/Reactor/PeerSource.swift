internal import SimpCore

/// Whom an address belongs to, as far as one can tell: IPv4 alone, IPv6 by its /64, for a subscriber has 2^64 addresses
/// and can use them all.
struct PeerSource: Hashable, Sendable {
  let family: PeerAddress.Family
  let bits: UInt64

  init(_ address: PeerAddress) {
    family = address.family
    bits = address.family == .v4 ? address.low : address.high
  }
}
