import Testing

@testable import SimpCore

@Suite struct UnprovenPathsTests {
  private let here = PeerAddress.v4(192, 0, 2, 1, port: 1000)
  private let there = PeerAddress.v4(192, 0, 2, 2, port: 1000)

  private func answers(_ paths: inout UnprovenPaths, proven: PeerAddress? = nil) -> [UnprovenPaths.Answer] {
    var found: [UnprovenPaths.Answer] = []
    while let answer = paths.poll(proven: proven, random: { 0x77 }) {
      if answer.isPadded { paths.noteSent(1200, to: answer.address) }
      found.append(answer)
    }
    return found
  }

  @Test func aChallengeIsAnsweredWithOneOfOurs() {
    var paths = UnprovenPaths()
    paths.challenged(5, from: here)
    paths.received(1200, from: here, isNewest: true)
    let sent = answers(&paths)
    #expect(sent.count == 1 && sent[0].isPadded && sent[0].address == here)
    #expect(sent[0].commands.map(\.0) == [.pathResponse, .pathChallenge])
    #expect(sent[0].commands.map(\.1) == [5, 0x77])
  }

  @Test func threeTimesWhatCameAndNoMore() {
    var paths = UnprovenPaths()
    paths.received(399, from: here, isNewest: true)
    #expect(answers(&paths).isEmpty)
    paths.received(1, from: here, isNewest: false)
    #expect(answers(&paths).count == 1)
    var total = 1200
    for _ in 0..<20 {
      paths.challenged(9, from: here)
      paths.received(100, from: here, isNewest: true)
      total += answers(&paths).count * 1200
    }
    #expect(total <= 3 * (400 + 20 * 100) && total > 1200)
  }

  @Test func anAnswerProvesItsOwnAddressOnly() {
    var paths = UnprovenPaths()
    for address in [here, there] {
      paths.challenged(5, from: address)
      paths.received(1200, from: address, isNewest: true)
    }
    var next: UInt64 = 10
    func random() -> UInt64 {
      next += 2
      return next
    }
    while paths.poll(proven: nil, random: random) != nil {}
    // Tokens are odd: 13 went here, 15 there.
    let wrong = [paths.proves(15, from: here), paths.proves(13, from: there), paths.proves(1, from: here)]
    #expect(wrong == [false, false, false])
    let right = paths.proves(13, from: here)
    let again = paths.proves(13, from: here)
    #expect(right && !again)
  }

  @Test func zeroProvesNothing() {
    var paths = UnprovenPaths()
    paths.received(100, from: here, isNewest: false)
    let proof = paths.proves(0, from: here)
    let stranger = paths.proves(0, from: there)
    #expect(!proof && !stranger)
  }

  @Test func theProvenAddressIsAnsweredWithoutAChallenge() {
    var paths = UnprovenPaths()
    paths.challenged(5, from: here)
    let sent = answers(&paths, proven: here)
    #expect(sent.count == 1 && !sent[0].isPadded && sent[0].commands.map(\.0) == [.pathResponse])
  }

  @Test func addressesAndChallengesAreBounded() {
    var paths = UnprovenPaths()
    for port: UInt16 in 1...100 {
      let address = PeerAddress.v4(192, 0, 2, 9, port: port)
      for token: UInt64 in 1...20 { paths.challenged(token, from: address) }
      paths.received(100_000, from: address, isNewest: true)
    }
    let sent = answers(&paths)
    #expect(sent.count == 4 && Set(sent.map(\.address.port)) == [97, 98, 99, 100])
  }
}

@Suite struct PathProverTests {
  private let start = Instant(nanoseconds: 1_000_000_000)

  /// When challenges leave, in milliseconds after the start, until `end`.
  private func challenges(until end: Int64, isBusy: Bool = false) -> [Int64] {
    var prover = PathProver()
    prover.start(seed: 1, now: start)
    var times: [Int64] = []
    var tokens: Set<UInt64> = []
    while true {
      let due = prover.deadline(path: .probing, isBusy: isBusy)
      guard due <= start + .milliseconds(end) else { break }
      if case .challenge(let token) = prover.poll(now: due, path: .probing, isBusy: isBusy) { tokens.insert(token) }
      times.append((due - start).nanoseconds / 1_000_000)
    }
    #expect(tokens.count == times.count && !tokens.contains(0))
    return times
  }

  @Test func oftenThenEveryFiveSecondsThenSeldom() {
    #expect(challenges(until: 11_000) == [0, 60, 150, 300, 500, 750, 5750, 10_750])
    let quiet = challenges(until: 400_000)
    #expect(quiet.suffix(3).map { $0 } == [240_750, 300_750, 360_750])
    let busy = challenges(until: 100_000, isBusy: true)
    #expect(busy.suffix(2).map { $0 } == [87_750, 96_750])
  }

  @Test func anAnswerToAnyOfThemCountsOnce() throws {
    var prover = PathProver()
    prover.start(seed: 1, now: start)
    guard case .challenge(let first) = prover.poll(now: start, path: .probing, isBusy: false),
      case .challenge = prover.poll(now: start + .milliseconds(60), path: .probing, isBusy: false)
    else {
      Issue.record("no challenge")
      return
    }
    let answers = [
      prover.responded(first ^ 2, now: start), prover.responded(first, now: start), prover.responded(first, now: start),
    ]
    #expect(answers == [false, true, false])
  }

  /// The client's own answer may be lost: it goes on until the server says that it has its proof.
  @Test func itGoesOnUntilTheServerHasItsProof() {
    var prover = PathProver()
    prover.start(seed: 1, now: start)
    _ = prover.poll(now: start, path: .probing, isBusy: false)
    #expect(prover.deadline(path: .up, isBusy: false) == start + .milliseconds(60))
    prover.confirmed(now: start + .milliseconds(30))
    #expect(prover.deadline(path: .up, isBusy: false) == start + .milliseconds(30) + WireTimes.udpKeepAlive)
    guard case .keepAlive = prover.poll(now: start + .seconds(26), path: .up, isBusy: false) else {
      Issue.record("no keep-alive")
      return
    }
    let next = prover.deadline(path: .up, isBusy: false)
    #expect(next <= start + .seconds(26) + WireTimes.udpKeepAlive && next > start + .milliseconds(26_000 + 22_500))
    // Any datagram serves as one.
    let later = prover.deadline(path: .up, isBusy: false, lastSent: start + .seconds(40))
    #expect(later - next == .seconds(14))
  }

  @Test func keepAlivesComeATenthEarlierAtMost() {
    var waits: Set<Int64> = []
    for seed: UInt64 in 1...200 {
      var prover = PathProver()
      prover.start(seed: seed, now: start)
      prover.confirmed(now: start)
      let first = prover.deadline(path: .up, isBusy: false)
      _ = prover.poll(now: first, path: .up, isBusy: false)
      let wait = (prover.deadline(path: .up, isBusy: false) - first).nanoseconds / 1_000_000
      #expect((22_500...25_000).contains(wait))
      waits.insert(wait / 250)
    }
    #expect(waits.count >= 9, "\(waits)")
  }

  @Test func aRequestIsAnsweredAtOnce() {
    var prover = PathProver()
    prover.start(seed: 1, now: start)
    _ = prover.poll(now: start, path: .probing, isBusy: false)
    prover.confirmed(now: start)
    prover.request(now: start + .seconds(3))
    #expect(prover.deadline(path: .up, isBusy: false) <= start + .seconds(3))
    guard case .challenge = prover.poll(now: start + .seconds(3), path: .up, isBusy: false) else {
      Issue.record("no challenge")
      return
    }
  }

  @Test func aPathThatWentDownIsProvenAgain() {
    var prover = PathProver()
    prover.start(seed: 1, now: start)
    prover.confirmed(now: start)
    prover.pathWentDown(now: start + .seconds(100))
    #expect(prover.deadline(path: .down, isBusy: true) == start + .seconds(100))
    _ = prover.poll(now: start + .seconds(100), path: .down, isBusy: true)
    #expect(prover.deadline(path: .down, isBusy: true) == start + .seconds(105))
  }

  @Test func beforeItBeginsNothingIsDue() {
    var prover = PathProver()
    prover.request(now: start)
    #expect(prover.deadline(path: .off, isBusy: true) == .never)
  }
}
