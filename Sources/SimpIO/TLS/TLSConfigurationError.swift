/// Why a certificate, a key or a trust setting cannot be used: one sentence with the remedy.
public struct TLSConfigurationError: Error, Hashable, Sendable, CustomStringConvertible {
  public let description: String
  init(_ description: String) { self.description = description }
}
