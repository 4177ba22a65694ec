public import SimpSupport

/// Whom a client program trusts, by its flags and by what lies beside the server's key.
///
/// In this order: `--tls off`; `--pin`; `--ca`; for a server on this machine (a loopback address or `localhost`) the pin
/// in `server.pin` beside the signing key that `--key` names, which a server writes at its start and which its owner
/// alone can read; else the authorities that the system trusts.
public enum TrustSettings: Hashable, Sendable {
  case system
  /// A PEM file.
  case authority(String)
  /// `sha256:…`, several with commas.
  case pin(String)
  case off(evenBeyondLoopback: Bool)

  public static let flags = [
    Flag("pin", placeholder: "sha256:…", isSetting: true, help: "trust the server with this key"),
    Flag("ca", placeholder: "FILE", isSetting: true, help: "trust the authority, or server, with this certificate"),
    Flag("tls", placeholder: "on|off", default: "on", isSetting: true, help: "off: clear text, on loopback only"),
    Flag("insecure", isSetting: true, help: "with --tls off: beyond loopback too"),
  ]

  /// - Parameters:
  ///   - server: `host`, `host:port` or `[IPv6]:port`.
  ///   - keyPath: the server's signing key, whether it is there or not.
  public init(_ settings: Settings, server: String, keyPath: String?) throws(UsageError) {
    // A flag goes before a variable, whichever two they are.
    func isFlag(_ name: String) -> Bool { settings.origin(name) == "--\(name)" }
    let flag = ["pin", "ca"].first { isFlag($0) }
    if try settings.choice("tls", of: ["on", "off"]) == "off", flag == nil || isFlag("tls") {
      if let flag { throw UsageError("--tls off trusts anybody: leave --\(flag) out, or TLS on") }
      self = .off(evenBeyondLoopback: try settings.isOn("insecure"))
      return
    }
    switch (settings.string("pin"), settings.string("ca")) {
    case (_?, _?) where isFlag("pin") && isFlag("ca"):
      throw UsageError("--pin and --ca are two ways to trust: give one of them")
    case (_, let file?) where flag == "ca": self = .authority(file)
    case (let pin?, _): self = .pin(pin)
    case (nil, let file?): self = .authority(file)
    case (nil, nil): self = Self.local(server: server, keyPath: keyPath) ?? .system
    }
  }

  /// What a server on this machine says of itself, if we may read it.
  private static func local(server: String, keyPath: String?) -> TrustSettings? {
    guard isLoopback(server), let keyPath else { return nil }
    let directory = keyPath.lastIndex(of: "/").map { keyPath[...$0] } ?? ""
    guard let text = try? FileContents.firstLine(path: directory + "server.pin"), !text.isEmpty else { return nil }
    return .pin(text)
  }

  private static func isLoopback(_ server: String) -> Bool {
    if server.hasPrefix("[") { return server.hasPrefix("[::1]") }
    if server == "::1" { return true }
    let host = server.prefix { $0 != ":" }
    let parts = host.split(separator: ".", omittingEmptySubsequences: false)
    return host == "localhost" || (parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil })
  }
}
