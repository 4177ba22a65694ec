/// Where a server is, as people write it.
package struct ServerName: Hashable, Sendable, CustomStringConvertible {
  package var host: String
  package var port: UInt16

  /// `host`, `host:port`, `127.0.0.1:7467`, `[::1]:7467`, `[::1]`, `::1`.
  package init(parsing text: String, defaultPort: UInt16) throws(SIMPError) {
    let colons = text.utf8.count { $0 == UInt8(ascii: ":") }
    var host = Substring(text)
    var port: Substring?
    if text.hasPrefix("[") {
      guard let end = text.firstIndex(of: "]") else { throw Self.invalid(text) }
      host = text[text.index(after: text.startIndex)..<end]
      let rest = text[text.index(after: end)...]
      guard rest.isEmpty || rest.hasPrefix(":"), host.contains(":") else { throw Self.invalid(text) }
      if !rest.isEmpty { port = rest.dropFirst() }
    } else if colons == 1, let colon = text.firstIndex(of: ":") {
      host = text[..<colon]
      port = text[text.index(after: colon)...]
    }
    guard !host.isEmpty, !host.utf8.contains(where: { $0 <= 0x20 || $0 == UInt8(ascii: "/") }) else {
      throw Self.invalid(text)
    }
    self.host = String(host)
    self.port = defaultPort
    if let port {
      guard port.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = UInt16(port), number > 0 else {
        throw Self.invalid(text)
      }
      self.port = number
    }
  }

  private static func invalid(_ text: String) -> SIMPError {
    SIMPError(.invalidAddress, "'\(text)' is not a server address: write host, host:port or [IPv6]:port")
  }

  package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
