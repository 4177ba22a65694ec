import Testing

@testable import SimpCore

@Suite struct KeyPhasesTests {
  private let start = Instant(nanoseconds: 1_000_000_000)
  private let timeout = Interval.milliseconds(100)

  private func header(_ number: UInt64, odd: Bool) -> DatagramHeader {
    DatagramHeader(connectionId: 1, packetNumber: number, isOddPhase: odd)
  }

  private func phases(every datagrams: UInt64 = 10) -> KeyPhases {
    KeyPhases(limits: KeyLimits(phaseDatagrams: datagrams))
  }

  /// Opens with the key that fits.
  private func open(_ number: UInt64, odd: Bool, _ phases: inout KeyPhases) throws -> Bool {
    let key = try #require(phases.key(for: header(number, odd: odd)))
    return try phases.opened(number, with: key, now: start, probeTimeout: timeout)
  }

  private func isTooSoon(_ number: UInt64, odd: Bool, _ phases: inout KeyPhases) -> Bool {
    do {
      _ = try open(number, odd: odd, &phases)
      return false
    } catch {
      return error as? KeyPhaseError == .changedTooSoon
    }
  }

  @Test func aKeyChangesWhenItsTimeIsUpAndItWasConfirmed() {
    var phases = phases()
    for _ in 0..<9 { phases.sealed() }
    phases.receipted(upTo: 3)
    #expect(!phases.isChangeDue)
    phases.sealed()
    #expect(phases.isChangeDue && !phases.isOddSealing)
    phases.sealingChanged(from: 10)
    #expect(phases.isOddSealing && !phases.isChangeDue)
    for _ in 0..<20 { phases.sealed() }
    // Only the phase before was receipted.
    phases.receipted(upTo: 9)
    #expect(!phases.isChangeDue)
    phases.receipted(upTo: 10)
    #expect(phases.isChangeDue)
  }

  @Test func aKeyIsNeverUsedBeyondItsLimit() {
    var phases = KeyPhases(limits: KeyLimits(phaseDatagrams: 2, sealedDatagrams: 5))
    for _ in 0..<5 {
      #expect(!phases.isUsedUp)
      phases.sealed()
    }
    #expect(phases.isUsedUp && !phases.isChangeDue)
    phases.receipted(upTo: 0)
    #expect(phases.isChangeDue && !phases.isUsedUp)
    phases.sealingChanged(from: 5)
    #expect(!phases.isUsedUp)
  }

  @Test func thePeersChangeIsFollowed() throws {
    var phases = phases()
    let first = try open(4, odd: false, &phases)
    phases.receiptLeft()
    let second = try open(7, odd: true, &phases)
    let third = try open(8, odd: true, &phases)
    #expect([first, second, third] == [false, true, false])
    #expect(phases.openingPhase == 1)
  }

  /// Numbers only grow from phase to phase: each datagram fits one key, or none.
  @Test func whatIsLateOpensWithTheFormerKeyOnly() throws {
    var phases = phases()
    _ = try open(4, odd: false, &phases)
    phases.receiptLeft()
    _ = try open(8, odd: true, &phases)
    _ = try open(12, odd: true, &phases)
    #expect(phases.key(for: header(6, odd: false)) == .former)
    #expect(phases.key(for: header(13, odd: false)) == .next)
    // Between numbers of the present phase no other one can be.
    #expect(phases.key(for: header(10, odd: false)) == nil)
    // And none of the present phase below one of the former.
    #expect(phases.key(for: header(6, odd: true)) == .present)
    #expect(phases.key(for: header(4, odd: true)) == nil)
    _ = try open(6, odd: false, &phases)
    #expect(phases.key(for: header(6, odd: true)) == nil)
    #expect(phases.key(for: header(7, odd: true)) == .present)
  }

  @Test func theFormerKeyGoesAfterThreeProbeTimeouts() throws {
    var phases = phases()
    _ = try open(4, odd: false, &phases)
    phases.receiptLeft()
    _ = try open(8, odd: true, &phases)
    #expect(phases.formerUntil == start + .milliseconds(300))
    let early = phases.formerExpires(now: start + .milliseconds(299))
    #expect(!early && phases.key(for: header(5, odd: false)) == .former)
    let due = phases.formerExpires(now: start + .milliseconds(300))
    let again = phases.formerExpires(now: start + .milliseconds(301))
    #expect(due && !again && phases.key(for: header(5, odd: false)) == nil)
    #expect(phases.formerUntil == nil)
  }

  @Test func aSecondChangeBeforeAReceiptIsAnError() throws {
    var phases = phases()
    // Nothing of phase 0 was receipted yet.
    let isTooSoon0 = isTooSoon(0, odd: true, &phases)
    #expect(isTooSoon0)
    _ = try open(0, odd: false, &phases)
    let isTooSoon1 = isTooSoon(1, odd: true, &phases)
    #expect(isTooSoon1)
    phases.receiptLeft()
    _ = try open(2, odd: true, &phases)
    let isTooSoon3 = isTooSoon(3, odd: false, &phases)
    #expect(isTooSoon3)
    #expect(phases.openingPhase == 1 && phases.key(for: header(4, odd: true)) == .present)
    phases.receiptLeft()
    let isFollowed = try open(5, odd: false, &phases)
    #expect(isFollowed && phases.openingPhase == 2)
  }
}
