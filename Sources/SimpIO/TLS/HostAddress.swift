internal import SimpCore

/// A host that is an address, as certificates hold it: without an interface.
struct HostAddress {
  let text: String

  /// nil for a name.
  init?(_ host: String) {
    guard var address = PeerAddress(literal: host, port: 0) else { return nil }
    address.scope = 0
    text = address.host
  }
}
