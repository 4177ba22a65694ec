/// A server's public key by its fingerprint: SHA-256 of the certificate's SubjectPublicKeyInfo (DER), as in RFC 7469.
///
/// It names the key, not the certificate: a certificate that is renewed for the same key keeps its pin. By hand:
/// `openssl x509 -in server.crt -noout -pubkey | openssl pkey -pubin -outform der | sha256sum`.
public struct PublicKeyPin: Hashable, Sendable {
  static let bytes = 32

  let digest: [UInt8]

  init(digest: [UInt8]) {
    precondition(digest.count == PublicKeyPin.bytes, "a SHA-256 digest has 32 bytes")
    self.digest = digest
  }

  /// Reads `sha256:` and 64 hexadecimal digits, with or without colons between bytes.
  public init?(_ text: String) {
    let prefix = "sha256:"
    guard text.lowercased().hasPrefix(prefix) else { return nil }
    var digest: [UInt8] = []
    var high: UInt8?
    for character in text.dropFirst(prefix.count) {
      if character == ":" && high == nil { continue }
      guard character.isASCII, let digit = character.hexDigitValue else { return nil }
      if let first = high {
        digest.append(first << 4 | UInt8(digit))
        high = nil
      } else {
        high = UInt8(digit)
      }
    }
    guard high == nil, digest.count == PublicKeyPin.bytes else { return nil }
    self.digest = digest
  }

  /// Reads one pin, or several with commas between them: the present key and the one that follows.
  public static func list(_ text: String) -> [PublicKeyPin]? {
    let pins = text.split(separator: ",").map { part in
      PublicKeyPin(String(part.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed()))
    }
    return pins.isEmpty || pins.contains(nil) ? nil : pins.compactMap(\.self)
  }
}

extension PublicKeyPin: CustomStringConvertible {
  /// `sha256:` and 64 lower-case digits: what `init` reads.
  public var description: String {
    "sha256:" + digest.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
  }
}
