import SimpCore
import Testing

@testable import SimpServer

@Suite struct WaitingRoomTests {
  private func source(_ last: UInt8) -> PeerSource { PeerSource(.v4(192, 0, 2, last, port: 1)) }

  private let start = Instant(nanoseconds: 1_000_000_000)

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
      // Every second one says what it is asked for, and is answered.
      if number % 2 == 0 { room.markAnswered(id, now: start) }
      if room.count > 1000, let gone = room.displace(for: id, from: from, now: start) { displaced.append(gone) }
    }
    #expect(room.count == 1000 && !displaced.contains(1))
    // A newcomer of a source without any stays, and the flood makes room.
    room.append(id + 1, from: source(201))
    let gone = room.displace(for: id + 1, from: source(201), now: start)
    #expect(gone != nil && gone != id + 1 && gone != 1)
  }

  @Test func amongEqualsTheOldestThatIsSilentGoes() {
    var room = WaitingRoom()
    for id in 1...4 as ClosedRange<UInt64> { room.append(id, from: source(UInt8(id))) }
    room.markSpoken(2)
    let gone = (0..<3).map { _ in room.displace(for: 4, from: source(4), now: start) }
    #expect(gone == [1, 3, 4] && room.count == 1)
    room.remove(2)
    let none = room.displace(for: 5, from: source(5), now: start)
    #expect(room.count == 0 && none == 5)
  }

  /// Many clients at once, behind one address or each with its own: who is being served is served to the end.
  @Test(arguments: [true, false]) func aCrowdDisplacesNobodyWhoIsServed(hasOneAddress: Bool) {
    func home(_ id: UInt64) -> PeerSource { source(hasOneAddress ? 1 : UInt8(id)) }
    var room = WaitingRoom()
    for id in 1...100 as ClosedRange<UInt64> {
      room.append(id, from: home(id))
      if id % 2 == 0 { room.markAnswered(id, now: start) } else if id != 7 { room.markSpoken(id) }
    }
    func newcomers(_ ids: ClosedRange<UInt64>, now: Instant) -> [UInt64?] {
      ids.map { id in
        room.append(id, from: home(id))
        let gone = room.displace(for: id, from: home(id), now: now)
        room.markSpoken(id)
        return gone
      }
    }
    // The one that said nothing, and then the newcomers.
    let first = newcomers(101...103, now: start)
    #expect(first == [7, 102, 103] && room.count == 100)
    // Who was answered and does not go on makes room in the end; who is in line does not.
    let later = newcomers(104...106, now: start + WaitingRoom.patience)
    #expect(later == [2, 4, 6] && room.count == 100)
  }

  @Test func anotherSourceFindsRoomInACrowdFromOne() {
    var room = WaitingRoom()
    for id in 1...100 as ClosedRange<UInt64> {
      room.append(id, from: source(1))
      if id > 10 { room.markAnswered(id, now: start) } else { room.markSpoken(id) }
    }
    var gone: [UInt64?] = []
    for id in [101, 102] as [UInt64] {
      room.append(id, from: source(2))
      gone.append(room.displace(for: id, from: source(2), now: start))
      room.markSpoken(id)
    }
    #expect(gone == [11, 12])
  }
}
