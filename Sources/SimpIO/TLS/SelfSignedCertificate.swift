internal import CSimpLinux
internal import Glibc

/// The certificate that a server makes for itself: enough for clients that pin its key, or are given the file to trust.
public struct SelfSignedCertificate: Sendable {
  public static let validityDays: Int64 = 3650

  public let certificatePath: String
  public let keyPath: String
  /// The key was made just now, and with it the pin.
  public let isKeyNew: Bool

  /// Finds `server.crt` and `server.key` in `directory`, or makes what is missing. A certificate that was removed is
  /// made anew for the same key, so that pins stay good: the way to have other names in it.
  ///
  /// - Parameters:
  ///   - names: host names and numeric addresses; localhost, 127.0.0.1 and ::1 are always in it.
  ///   - now: Unix seconds.
  public init(directory: String, names: [String], now: UInt64) throws(TLSConfigurationError) {
    certificatePath = directory + "/server.crt"
    keyPath = directory + "/server.key"
    let hasKey = PEMFile.exists(keyPath)
    isKeyNew = !hasKey
    if PEMFile.exists(certificatePath) {
      guard hasKey else {
        throw TLSConfigurationError(
          "\(certificatePath) is there, but not its key \(keyPath): bring the key back, or remove the certificate and "
            + "a new pair is made")
      }
      return
    }
    if !hasKey { try PEMFile.create(keyPath, Self.makeKey(), mode: 0o600) }
    let key = try PEMFile.read(keyPath, isSecret: true)
    let start = Int64(clamping: now)
    // An hour back: clocks differ.
    let certificate = try Self.make(
      key: key, names: ["localhost", "127.0.0.1", "::1"] + names, notBefore: start - 3600,
      notAfter: start + Self.validityDays * 86_400)
    try PEMFile.create(certificatePath, certificate, mode: 0o644)
  }

  /// A private key on P-256, PEM.
  package static func makeKey() -> [UInt8] {
    var made = unsafe simp_bytes()
    // SAFETY: `made` outlives the call; what it points to is copied, then freed once.
    unsafe precondition(simp_key_make(&made) == 1, "OpenSSL makes no key")
    defer { unsafe simp_bytes_free(&made) }
    return unsafe Array(UnsafeBufferPointer(start: made.bytes, count: made.count))
  }

  /// A certificate signed by its own key, PEM. Names that no certificate can hold are left out.
  package static func make(
    key: [UInt8], names: [String], notBefore: Int64, notAfter: Int64
  ) throws(TLSConfigurationError) -> [UInt8] {
    var entries: [String] = []
    for name in names {
      guard let entry = Self.entry(name), !entries.contains(entry) else { continue }
      entries.append(entry)
    }
    var made = unsafe simp_bytes()
    // SAFETY: as above.
    let isMade = unsafe simp_certificate_make(
      key, key.count, "simp-server", entries.joined(separator: ","), notBefore, notAfter, &made)
    defer { unsafe simp_bytes_free(&made) }
    guard isMade == 1 else {
      throw TLSConfigurationError(
        "no certificate can be made with the key: \(unsafe String(cString: simp_tls_error_text())); is it a PEM file "
          + "with an unencrypted private key?")
    }
    return unsafe Array(UnsafeBufferPointer(start: made.bytes, count: made.count))
  }

  /// The name in OpenSSL's notation, nil when it is neither an address nor a host name.
  private static func entry(_ name: String) -> String? {
    if let address = HostAddress(name) { return "IP:\(address.text)" }
    let isName = name.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"):
        true
      default: false
      }
    }
    return isName && (1...253).contains(name.utf8.count) ? "DNS:\(name)" : nil
  }
}
