/// Addresses that a client's datagrams came from and that are not proven to be its own. Each gets challenges, and at
/// most three times the bytes that came from it (wire document, "Path").
struct UnprovenPaths {
  private struct Candidate {
    var address: PeerAddress
    var received = 0
    var sent = 0
    /// Our challenge; 0 while none was sent.
    var token: UInt64 = 0
    /// The client's latest challenge, while it waits for an answer: one, however many come.
    var toAnswer: UInt64?
    var wantsChallenge = false
  }

  struct Answer {
    var commands: [(Command, UInt64)]
    var isPadded: Bool
    var address: PeerAddress
  }

  // BOUND: four addresses, the oldest goes; one unanswered challenge each.
  private var candidates: [Candidate] = []
  private static let maximumCandidates = 4

  /// An authentic datagram came from an address that is not the proven one.
  mutating func received(_ bytes: Int, from address: PeerAddress, isNewest: Bool) {
    let index = find(address)
    candidates[index].received += bytes
    if isNewest, candidates[index].token == 0 { candidates[index].wantsChallenge = true }
  }

  /// Bytes that may still be sent there.
  func allowance(for address: PeerAddress) -> Int {
    guard let path = candidates.first(where: { $0.address == address }) else { return 0 }
    return max(0, path.received * WireLimits.amplificationFactor - path.sent)
  }

  /// A challenge to this address waits for more bytes from it: nothing else may take what it needs.
  func isChallengeDue(to address: PeerAddress) -> Bool {
    candidates.contains { $0.address == address && ($0.wantsChallenge || $0.toAnswer != nil) }
  }

  /// Datagrams go to this address, and its challenge was not answered in time.
  mutating func challengeAgain(_ address: PeerAddress) { candidates[find(address)].wantsChallenge = true }

  /// A datagram left, whatever was in it.
  mutating func noteSent(_ bytes: Int, to address: PeerAddress) {
    guard let index = candidates.firstIndex(where: { $0.address == address }) else { return }
    candidates[index].sent += bytes
  }

  /// The client challenges the path it uses; the answer carries our own challenge.
  mutating func challenged(_ token: UInt64, from address: PeerAddress) {
    let index = find(address)
    candidates[index].toAnswer = token
    candidates[index].wantsChallenge = true
  }

  /// - Returns: whether the token is our challenge to this very address.
  mutating func proves(_ token: UInt64, from address: PeerAddress) -> Bool {
    guard let index = candidates.firstIndex(where: { $0.address == address }) else { return false }
    guard candidates[index].token != 0, candidates[index].token == token else { return false }
    candidates.removeAll()
    return true
  }

  /// The next datagram to send, nil when none may leave. The caller says `noteSent` when it left.
  ///
  /// - Parameter proven: the proven address while the path is up: it is answered without limit and without challenge.
  mutating func poll(proven: PeerAddress?, random: () -> UInt64) -> Answer? {
    for index in candidates.indices {
      let candidate = candidates[index]
      if candidate.address == proven {
        guard let token = candidate.toAnswer else { continue }
        candidates[index].toAnswer = nil
        return Answer(commands: [(.pathResponse, token)], isPadded: false, address: candidate.address)
      }
      guard candidate.wantsChallenge || candidate.toAnswer != nil else { continue }
      let size = WireLimits.maximumDatagramBytes
      guard candidate.sent + size <= candidate.received * WireLimits.amplificationFactor else { continue }
      if candidate.token == 0 { candidates[index].token = random() | 1 }
      candidates[index].wantsChallenge = false
      var commands: [(Command, UInt64)] = []
      if let token = candidate.toAnswer {
        commands.append((.pathResponse, token))
        candidates[index].toAnswer = nil
      }
      commands.append((.pathChallenge, candidates[index].token))
      return Answer(commands: commands, isPadded: true, address: candidate.address)
    }
    return nil
  }

  private mutating func find(_ address: PeerAddress) -> Int {
    if let index = candidates.firstIndex(where: { $0.address == address }) { return index }
    if candidates.count == Self.maximumCandidates { candidates.removeFirst() }
    candidates.append(Candidate(address: address))
    return candidates.count - 1
  }
}
