import SimpCore
import SimpIO
import Testing

@testable import SimpConnection
@testable import SimpServer

/// Ten thousand clients whose server went away, in virtual time: the library's waits against the server's admission.
struct ReturningCrowdTests {
  private static let people = 10_000
  private static let limits = ServerLimits()

  /// A server in steps of a millisecond, from the moment the old one is gone.
  private struct Crowd {
    struct Result {
      /// When the last was in, ms; nil when somebody still is not.
      var complete: Int?
      var refusedConnections = 0
      var refusedLogins = 0
      /// Connections closed because too many waited for their handshake.
      var displaced = 0
      /// Clients whose patience was over before their handshake.
      var gaveUp = 0
      var mostWaiting = 0
      /// Handshakes that were done in vain: the login behind them was refused.
      var handshakes = 0
    }

    private let admission = Admission(limits)
    private var random = SplitMix(state: 11)
    private var waits = [Backoff](repeating: Backoff(first: .milliseconds(50), last: .seconds(10)), count: people)
    private var calendar: [Int: [Int]] = [:]
    private var parked: [(client: Int, since: Int)] = []
    private var inside = 0
    private var result = Result()

    /// - Parameters:
    ///   - goodbye: what everybody was told, nil when the server just vanished.
    ///   - opens: when its successor listens, ms.
    mutating func run(goodbye: Refusal?, opens: Int, until end: Int) -> Result {
      for client in 0..<people { comeBack(client, after: goodbye, at: 0) }
      for now in 0..<end {
        for client in calendar.removeValue(forKey: now) ?? [] { arrive(client, at: now, isOpen: now >= opens) }
        greet(at: now)
        if inside == people {
          result.complete = now
          break
        }
      }
      return result
    }

    private mutating func comeBack(_ client: Int, after refusal: Refusal?, at now: Int) {
      let wait = waits[client].next(
        retryAfter: .milliseconds(Int64(refusal?.retryAfterMilliseconds ?? 0)),
        spread: .milliseconds(Int64(refusal?.retrySpreadMilliseconds ?? 0)), random: random.next())
      calendar[now + 1 + Int(wait.milliseconds), default: []].append(client)
    }

    private mutating func arrive(_ client: Int, at now: Int, isOpen: Bool) {
      guard isOpen, case .admitted = admission.enter(Self.address(client)) else {
        result.refusedConnections += 1
        return comeBack(client, after: nil, at: now)
      }
      parked.append((client, now))
      result.mostWaiting = max(result.mostWaiting, parked.count)
      guard parked.count > limits.waitingConnections else { return }
      result.displaced += 1
      leave(parked.removeFirst().client, after: nil, at: now)
    }

    /// Handshakes that may be done now, oldest first, and the logins behind them.
    private mutating func greet(at now: Int) {
      while let first = parked.first, now - first.since > 5000 {
        result.gaveUp += 1
        leave(parked.removeFirst().client, after: nil, at: now)
      }
      while !parked.isEmpty, admission.handshake(now: Self.instant(now)) == nil {
        let client = parked.removeFirst().client
        result.handshakes += 1
        if let wait = admission.login(now: Self.instant(now)) {
          result.refusedLogins += 1
          // As a reactor says it.
          let milliseconds = max(1000, UInt32(clamping: wait.nanoseconds / 1_000_000))
          leave(client, after: Refusal(.overloaded, "", retryAfterMilliseconds: milliseconds), at: now)
        } else {
          inside += 1
        }
      }
    }

    private mutating func leave(_ client: Int, after refusal: Refusal?, at now: Int) {
      admission.leave(Self.address(client))
      comeBack(client, after: refusal, at: now)
    }

    private static func instant(_ milliseconds: Int) -> Instant {
      Instant(nanoseconds: 1 << 40) + .milliseconds(Int64(milliseconds))
    }

    private static func address(_ client: Int) -> PeerAddress {
      .v4(10, 1, UInt8(client >> 8 & 255), UInt8(client & 255), port: 1)
    }
  }

  @Test func aServerThatGoesDownIsNotFallenOver() throws {
    let goodbye = Server.goodbye(connections: Self.people, limits: Self.limits)
    var crowd = Crowd()
    let result = crowd.run(goodbye: goodbye, opens: 2000, until: 600_000)
    let complete = try #require(result.complete)
    // 10 000 at three quarters of 500 a second, and the half second before.
    #expect(complete < 30_000, "\(result)")
    #expect(result.displaced == 0 && result.gaveUp == 0 && result.refusedLogins == 0, "\(result)")
    #expect(result.mostWaiting < 500, "\(result)")
  }

  @Test func aServerThatVanishesIsComeBackToByAll() throws {
    var crowd = Crowd()
    let result = crowd.run(goodbye: nil, opens: 2000, until: 600_000)
    // Without a word of the server only chance and the doubled waits spread them. Handshakes are bounded all the time,
    // and none of them is in vain.
    let complete = try #require(result.complete)
    #expect(complete < 60_000, "\(result)")
    #expect(result.handshakes < Self.people * 11 / 10, "\(result)")
    #expect(result.mostWaiting <= Self.limits.waitingConnections + 1, "\(result)")
  }

  @Test func fewAreNotKeptWaiting() {
    let goodbye = Server.goodbye(connections: 3, limits: Self.limits)
    #expect(goodbye.retryAfterMilliseconds == 500 && goodbye.retrySpreadMilliseconds == 500)
    let most = Server.goodbye(connections: 10_000_000, limits: Self.limits)
    #expect(most.retrySpreadMilliseconds == 600_000)
  }
}
