import SimpCore
import SimpIO
import Testing

@testable import SimpServer

@Suite struct AdmissionTests {
  private func admission(_ change: (inout ServerLimits) -> Void) -> Admission {
    var limits = ServerLimits()
    change(&limits)
    return Admission(limits)
  }

  private func isAdmitted(_ verdict: Admission.Verdict) -> Bool {
    if case .admitted = verdict { true } else { false }
  }

  private func code(_ verdict: Admission.Verdict) -> ErrorCode? {
    if case .told(let refusal) = verdict { refusal.code } else { nil }
  }

  private func isDropped(_ verdict: Admission.Verdict) -> Bool {
    if case .dropped = verdict { true } else { false }
  }

  private func v4(_ last: UInt8, port: UInt16 = 1) -> PeerAddress { .v4(192, 0, 2, last, port: port) }

  @Test func anAddressHasItsShareAndAFewAreTold() {
    let admission = admission { $0.connectionsPerAddress = 3 }
    for port in 1...3 { #expect(isAdmitted(admission.enter(v4(1, port: UInt16(port))))) }
    for _ in 0..<ServerLimits.toldPerAddress { #expect(code(admission.enter(v4(1))) == .tooManyConnections) }
    for _ in 0..<1000 { #expect(isDropped(admission.enter(v4(1)))) }
    #expect(isAdmitted(admission.enter(v4(2))))
    for _ in 0...ServerLimits.toldPerAddress { admission.leave(v4(1)) }
    #expect(isAdmitted(admission.enter(v4(1))))
  }

  @Test func anIPv6SubscriberIsOneAddress() {
    let admission = admission { $0.connectionsPerAddress = 2 }
    func address(_ subnet: UInt64, _ host: UInt64) -> PeerAddress {
      PeerAddress(family: .v6, high: 0x2001_0DB8_0000_0000 + subnet, low: host, port: 1)
    }
    #expect(isAdmitted(admission.enter(address(1, 1))) && isAdmitted(admission.enter(address(1, 2))))
    #expect(!isAdmitted(admission.enter(address(1, 3))))
    #expect(isAdmitted(admission.enter(address(2, 3))))
  }

  @Test func allTogetherHaveALimit() {
    let admission = admission { $0.connections = 5 }
    for host in 1...5 { #expect(isAdmitted(admission.enter(v4(UInt8(host))))) }
    for host in 0..<ServerLimits.toldConnections {
      #expect(code(admission.enter(v4(UInt8(10 + host)))) == .tooManyConnections)
    }
    #expect(isDropped(admission.enter(v4(200))))
    #expect(admission.counts.connections == 5 + ServerLimits.toldConnections)
  }

  @Test func loopbackIsLimitedOnlyWhenAsked() {
    let free = admission { $0.connectionsPerAddress = 1 }
    let bound = admission {
      $0.connectionsPerAddress = 1
      $0.isLoopbackLimited = true
    }
    for _ in 0..<10 { #expect(isAdmitted(free.enter(.loopback(port: 1)))) }
    #expect(isAdmitted(bound.enter(.loopback(port: 1))) && !isAdmitted(bound.enter(.loopback(port: 2))))
  }

  @Test func whoLeftIsForgotten() {
    let admission = admission { _ in }
    for host in 0..<200 { _ = admission.enter(v4(UInt8(host))) }
    #expect(admission.counts == (200, 200))
    for host in 0..<200 { admission.leave(v4(UInt8(host))) }
    #expect(admission.counts == (0, 0))
  }
}
