import SimpCore
import Testing

@testable import SimpServer

@Suite struct OwedEndpointsTests {
  private func record(_ user: String, epoch: UInt64 = 1) -> EndpointRecord {
    EndpointRecord(user: user, device: 1, epoch: epoch, connectionId: 7, address: nil, since: 0)
  }

  private func next(_ owed: inout OwedEndpoints) throws -> OwedEndpoints.Write {
    let write = owed.next()
    return try #require(write)
  }

  private func users(_ owed: inout OwedEndpoints) -> [String] {
    var users: [String] = []
    while let write = owed.next() { users.append(write.record.user) }
    return users
  }

  @Test func fewAreUnderWayAndTheRestFollowsInOrder() throws {
    var owed = OwedEndpoints()
    let names = (0..<1000).map { "user\($0)" }
    for name in names { _ = owed.want(record(name), isPresent: true) }
    var written: [String] = []
    var underWay: [OwedEndpoints.Write] = []
    var most = 0
    while !owed.isEmpty {
      while let write = owed.next() { underWay.append(write) }
      most = max(most, underWay.count)
      let first = underWay.removeFirst()
      written.append(first.record.user)
      owed.answered(first, isStored: true)
    }
    #expect(written == names && underWay.isEmpty && most == OwedEndpoints.maximumUnderWay)
  }

  @Test func theLastWishOfADeviceCounts() throws {
    var owed = OwedEndpoints()
    _ = owed.want(record("alice"), isPresent: true)
    _ = owed.want(record("alice", epoch: 2), isPresent: true)
    let first = try next(&owed)
    #expect(first.record.epoch == 2 && users(&owed).isEmpty)
    // It changes while the first is under way: one more, and only what was written last settles it.
    _ = owed.want(record("alice", epoch: 2), isPresent: false)
    let second = try next(&owed)
    #expect(!second.isPresent)
    owed.answered(first, isStored: true)
    #expect(!owed.isEmpty)
    owed.answered(second, isStored: true)
    #expect(owed.isEmpty)
  }

  @Test func whatFailedIsWrittenAgainWhenAskedFor() throws {
    var owed = OwedEndpoints()
    for name in ["alice", "bob"] { _ = owed.want(record(name), isPresent: true) }
    let (alice, bob) = (try next(&owed), try next(&owed))
    owed.answered(alice, isStored: false)
    owed.answered(bob, isStored: false)
    #expect(owed.hasFailed && users(&owed).isEmpty)
    // A later wish takes the place of what failed, and waits with it.
    _ = owed.want(record("alice", epoch: 3), isPresent: true)
    #expect(users(&owed).isEmpty)
    owed.retryFailed()
    #expect(!owed.hasFailed)
    let again = try next(&owed)
    #expect(again.record.user == "alice" && again.record.epoch == 3)
    #expect(users(&owed) == ["bob"])
    owed.answered(again, isStored: true)
    #expect(!owed.isEmpty)
  }

  @Test func theyAreBounded() {
    var owed = OwedEndpoints()
    let taken = (0..<OwedEndpoints.maximum).count { owed.want(record("user\($0)"), isPresent: false) }
    let oneMore = owed.want(record("one more"), isPresent: false)
    let known = owed.want(record("user5", epoch: 9), isPresent: false)
    // Sessions have a bound of their own, and without its endpoint none becomes live.
    let present = owed.want(record("one more"), isPresent: true)
    #expect(taken == OwedEndpoints.maximum && !oneMore && known && present)
  }
}
