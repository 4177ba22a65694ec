public import SimpConnection

extension SIMPConnection.Configuration.TLS {
  public init(_ trust: TrustSettings) {
    switch trust {
    case .system: self = .systemTrust
    case .authority(let file): self = .certificateAuthority(file)
    case .pin(let text): self = .pinned(text)
    case .off(let everywhere): self = .off(evenBeyondLoopback: everywhere)
    }
  }
}
