import SimpCore
import Testing

@testable import SimpServer

@Suite struct WaitingRoomTests {
  private func source(_ last: UInt8) -> PeerSource { PeerSource(.v4(192, 0, 2, last, port: 1)) }

  @Test func aFloodGivesWayToItselfAndNotTheOthers() {
    var room = WaitingRoom()
    let honest = source(200)
    var id: UInt64 = 1
    room.append(id, from: honest)
    var displaced: [UInt64] = []
    // 64 sources, over and over, against a room of 1000.
    for number in 0..<50_000 {
      id += 1
      let from = source(UInt8(number % 64))
      room.append(id, from: from)
      // Every second one does what it is asked for.
      if number % 2 == 0 { room.hasSpoken(id) }
      if room.count > 1000, let gone = room.displace(for: from) { displaced.append(gone) }
    }
    #expect(room.count == 1000 && !displaced.contains(1))
    // A newcomer of a source without any stays, and the flood makes room.
    room.append(id + 1, from: source(201))
    let gone = room.displace(for: source(201))
    #expect(gone != nil && gone != id + 1 && gone != 1)
  }

  @Test func amongEqualsTheOldestGoes() {
    var room = WaitingRoom()
    for id in 1...4 as ClosedRange<UInt64> { room.append(id, from: source(UInt8(id))) }
    let gone = [room.displace(for: source(4)), room.displace(for: source(4))]
    #expect(gone == [1, 2])
    room.remove(3)
    let rest = [room.displace(for: source(4)), room.displace(for: source(4))]
    #expect(rest == [4, nil] && room.count == 0)
  }

  /// Many clients behind one address, all at once: who is being served is served to the end.
  @Test func aCrowdFromOneSourceDisplacesNobodyWhoHasSpoken() {
    var room = WaitingRoom()
    for id in 1...100 as ClosedRange<UInt64> {
      room.append(id, from: source(1))
      if id != 7 { room.hasSpoken(id) }
    }
    var gone: [UInt64?] = []
    for id in 101...110 as ClosedRange<UInt64> {
      room.append(id, from: source(1))
      gone.append(room.displace(for: source(1)))
    }
    // The one that said nothing, then the newcomers; of those one is still in.
    #expect(gone == [7, 101, 102, 103, 104, 105, 106, 107, 108, 109] && room.count == 100)
    // Somebody else finds a place: first that of the newcomer, then that of the oldest.
    for id in [111, 112] as [UInt64] {
      room.append(id, from: source(2))
      room.hasSpoken(id)
    }
    let others = [room.displace(for: source(2)), room.displace(for: source(2))]
    #expect(others == [110, 1])
  }
}
