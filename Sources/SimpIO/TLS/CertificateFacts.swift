internal import CSimpLinux

/// What a certificate says, copied out of it.
public struct CertificateFacts: Hashable, Sendable {
  public let pin: PublicKeyPin
  /// Unix seconds.
  public let notBefore: Int64
  /// Unix seconds.
  public let notAfter: Int64
  /// The names and addresses it is for, with commas between them. Printable ASCII: a peer may have written it.
  public let names: String
  /// Who signed it. Printable ASCII.
  public let issuer: String

  /// The first certificate of a PEM text; nil when there is none.
  public init?(pem: [UInt8]) {
    // SAFETY: the text is read during the call; the certificate is freed after its facts were copied.
    let certificate = unsafe simp_certificate_parse(pem, pem.count)
    defer { unsafe simp_certificate_free(certificate) }
    guard let certificate = unsafe certificate else { return nil }
    unsafe self.init(certificate)
  }

  /// - Parameter certificate: borrowed from OpenSSL for the length of the call.
  init?(_ certificate: OpaquePointer) {
    var digest = [UInt8](repeating: 0, count: PublicKeyPin.bytes)
    var (before, after): (Int64, Int64) = (0, 0)
    // SAFETY: everything is written to variables that outlive the calls.
    guard unsafe simp_certificate_pin(certificate, &digest) == 1,
      unsafe simp_certificate_times(certificate, &before, &after) == 1
    else { return nil }
    pin = PublicKeyPin(digest: digest)
    notBefore = before
    notAfter = after
    names = unsafe Self.text { unsafe simp_certificate_names(certificate, $0, $1) }
    issuer = unsafe Self.text { unsafe simp_certificate_issuer(certificate, $0, $1) }
  }

  /// BOUND: of a text that a peer chose, so much is shown.
  private static let textBytes = 400

  private static func text(_ fill: (UnsafeMutablePointer<CChar>, Int) -> Int) -> String {
    var bytes = [CChar](repeating: 0, count: textBytes)
    // SAFETY: `fill` writes at most as many bytes as it is told there is room for, and says how many.
    let count = unsafe fill(&bytes, textBytes)
    return String(
      decoding: bytes[..<count].map { (0x20..<0x7F).contains($0) ? UInt8($0) : UInt8(ascii: "?") }, as: UTF8.self)
  }

  /// `2026-11-30` in UTC.
  public static func day(_ unixSeconds: Int64) -> String {
    // Days since 1 March of the year 0, so that the leap day is the last of its year.
    let days = unixSeconds / 86_400 - (unixSeconds % 86_400 < 0 ? 1 : 0) + 719_468
    let era = (days >= 0 ? days : days - 146_096) / 146_097
    let dayOfEra = days - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shifted = (5 * dayOfYear + 2) / 153
    let month = shifted < 10 ? shifted + 3 : shifted - 9
    let day = dayOfYear - (153 * shifted + 2) / 5 + 1
    func padded(_ number: Int64) -> String { (number < 10 ? "0" : "") + "\(number)" }
    return "\(yearOfEra + era * 400 + (month <= 2 ? 1 : 0))-\(padded(month))-\(padded(day))"
  }
}
