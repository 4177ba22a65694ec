import Glibc
import SimpCore
import Testing

@testable import SimpStore

struct MessageStoreTests {
  @Test func whatIsSentIsThereAgain() throws {
    let place = try StorePlace()
    let id: UInt64
    do {
      let store = try place.open()
      id = store.contents.outbox.id
      #expect(store.contents.outbox.messages.isEmpty && store.contents.owner == StoreOwner())
      let numbers = try store.commit(StoreBatch(["a", "b"]))
      #expect(numbers.sent.map(\.counter) == [1, 2] && numbers.sent.map(\.order) == [1, 2])
      #expect(try store.commit(StoreBatch(["c"], to: "carol")).sent[0] == (3, 1))
      var batch = StoreBatch(["d"])
      batch.finished = [1]
      batch.login = .init(owner: StoreOwner(user: "alice", server: "im"), deviceNumber: 9)
      #expect(try store.commit(batch).sent[0] == (4, 3))
      #expect(store.unfinished == 3)
      store.close()
    }
    let store = try place.open()
    let outbox = store.contents.outbox
    #expect(outbox.id == id && outbox.id != 0 && outbox.deviceNumber == 9 && outbox.counter == 4)
    #expect(outbox.messages.map(\.content.text) == ["b", "c", "d"])
    #expect(outbox.messages.map(\.order) == [2, 1, 3] && outbox.messages.map(\.counter) == [2, 3, 4])
    #expect(store.contents.owner == StoreOwner(user: "alice", server: "im"))
    // The numbers go on, also of a user to whom nothing is under way.
    var batch = StoreBatch(["e"])
    batch.finished = [3]
    #expect(try store.commit(batch).sent[0] == (5, 4))
    #expect(try store.commit(StoreBatch(["f"], to: "carol")).sent[0] == (6, 2))
  }

  @Test func everyFieldComesBack() throws {
    var content = MessageContent(text: "ä\n", time: 1 << 40)
    content.type = 77
    content.imageURL = "https://x"
    content.imageScale = 1.5
    content.custom = [0, 255, 0]
    var attachment = Attachment()
    attachment.url = "u"
    attachment.sha256 = [UInt8](repeating: 3, count: 32)
    attachment.size = 1 << 35
    content.attachment = attachment
    var message = try incoming(5, floor: 3)
    message.content = content
    message.isLate = true
    let place = try StorePlace()
    do {
      let store = try place.open()
      var batch = StoreBatch()
      batch.sent = [(content, "bob")]
      batch.received = [message]
      _ = try store.commit(batch)
    }
    let store = try place.open()
    #expect(store.contents.outbox.messages.first?.content == content)
    #expect(store.contents.received.first?.message == message)
  }

  @Test func bodyAndDuplicateMarkComeTogether() throws {
    let place = try StorePlace()
    do {
      let store = try place.open()
      var batch = StoreBatch()
      batch.received = [try incoming(1), try incoming(2), try incoming(5), try incoming(1, device: 2)]
      #expect(try store.commit(batch).received == [1, 2, 3, 4])
    }
    let store = try place.open()
    #expect(store.contents.received.map(\.message.order) == [1, 2, 5, 1])
    #expect(store.contents.received.allSatisfy { !$0.isRedelivered })
    let marks = store.contents.marks.sorted { $0.device < $1.device }
    #expect(marks.map(\.device) == [1, 2] && marks.allSatisfy { $0.user == "alice" })
    let map = try #require(marks.first?.map)
    #expect((1...6).filter { map.contains($0) } == [1, 2, 5] && map.base == 3 && map.end == 6)
  }

  @Test func aMarkFollowsTheFloor() throws {
    let store = try StorePlace().open()
    var batch = StoreBatch()
    batch.received = [try incoming(40_000, floor: 40_000), try incoming(90_000, floor: 89_999)]
    _ = try store.commit(batch)
    batch.received = [try incoming(89_999, floor: 89_999)]
    _ = try store.commit(batch)
  }

  @Test func whatWasHandedOverComesBackMarked() throws {
    let place = try StorePlace()
    do {
      let store = try place.open()
      var batch = StoreBatch()
      batch.received = try (1...5).map { try incoming($0) }
      let ids = try store.commit(batch).received
      try store.handover.noteHandedOver(ids[0])
      try store.handover.noteHandedOver(ids[1])
      try store.handover.noteAcknowledged(ids[1])
      try store.handover.noteHandedOver(ids[2])
    }
    // As when it was killed: nothing told the store of it.
    for _ in 0..<2 {
      let store = try place.open()
      #expect(store.contents.received.map(\.message.order) == [1, 3, 4, 5])
      #expect(store.contents.received.map(\.isRedelivered) == [true, true, false, false])
    }
    do {
      let store = try place.open()
      var batch = StoreBatch()
      batch.acknowledged = [store.contents.received[0].id]
      batch.handedOver = [store.contents.received[2].id]
      _ = try store.commit(batch)
      #expect(store.received == 3)
    }
    let store = try place.open()
    #expect(store.contents.received.map(\.message.order) == [3, 4, 5])
    #expect(store.contents.received.map(\.isRedelivered) == [true, true, false])
  }

  @Test func aHandoverLogOfAnotherOpeningSaysNothing() throws {
    let place = try StorePlace()
    let log = place.path + "-handover"
    do {
      let store = try place.open()
      var batch = StoreBatch()
      batch.received = [try incoming(1)]
      let id = try store.commit(batch).received[0]
      try store.handover.noteAcknowledged(id)
    }
    // A copy from a backup, of an opening before.
    #expect(unsafe rename(log, log + "-old") == 0)
    do {
      let store = try place.open()
      #expect(store.contents.received.count == 1)
    }
    #expect(unsafe rename(log + "-old", log) == 0)
    let store = try place.open()
    #expect(store.contents.received.count == 1)
  }

  @Test func itsRingGoesRound() throws {
    let place = try StorePlace()
    do {
      let store = try place.open()
      var batch = StoreBatch()
      batch.received = [try incoming(1)]
      _ = try store.commit(batch)
      for id in 0..<UInt64(HandoverLog.records) { try store.handover.noteHandedOver(1000 + id) }
      try store.handover.noteAcknowledged(1)
    }
    #expect(try place.open().contents.received.isEmpty)
    var status = stat()
    #expect(unsafe stat(place.path + "-handover", &status) == 0)
    #expect(status.st_size == 16 + 8 * HandoverLog.records)
  }

  @Test func limitsAreKept() throws {
    let place = try StorePlace()
    var limits = StoreLimits()
    limits.outboxMessages = 3
    limits.outboxBytes = 1000
    limits.receivedMessages = 2
    let store = try place.open(limits)
    _ = try store.commit(StoreBatch(["1", "2"]))
    #expect(throws: StoreError.full("the store takes 3 messages without a final receipt")) {
      try store.commit(StoreBatch(["3", "4"]))
    }
    var batch = StoreBatch(["3"])
    batch.finished = [1]
    _ = try store.commit(batch)
    #expect(throws: StoreError.full("the store takes 1000 bytes of messages without a final receipt")) {
      try store.commit(StoreBatch([String(repeating: "x", count: 900)]))
    }
    // No number was used up.
    #expect(try store.commit(StoreBatch(["4"])).sent[0] == (4, 4))
    var received = StoreBatch()
    received.received = [try incoming(1), try incoming(2)]
    _ = try store.commit(received)
    received.received = [try incoming(3)]
    #expect(throws: StoreError.full("the store takes 2 messages that are not acknowledged")) {
      try store.commit(received)
    }
    received.acknowledged = [1]
    #expect(throws: StoreError.self) { try store.commit(received) }
    received.received = []
    _ = try store.commit(received)
    received = StoreBatch()
    received.received = [try incoming(3)]
    _ = try store.commit(received)
    #expect(store.received == 2)
  }

  @Test func marksAreBounded() throws {
    let place = try StorePlace()
    var limits = StoreLimits()
    limits.marks = 8
    let store = try place.open(limits)
    for device in 1...UInt32(100) {
      var batch = StoreBatch()
      batch.received = [try incoming(1, device: device)]
      batch.acknowledged = [UInt64(device)]
      _ = try store.commit(batch)
    }
    let database = try rows(in: store)
    #expect(try database("SELECT count(*) FROM mark") <= 8 + 64)
  }

  /// The file stays small while much passes through it.
  @Test func itCompactsItself() throws {
    let place = try StorePlace()
    let store = try place.open()
    let text = String(repeating: "x", count: 50_000)
    var counters: [UInt64] = []
    for _ in 0..<40 { counters.append(try store.commit(StoreBatch([text])).sent[0].counter) }
    let full = try size(place.path)
    for counter in counters {
      var batch = StoreBatch()
      batch.finished = [counter]
      _ = try store.commit(batch)
    }
    for _ in 0..<256 {
      let counter = try store.commit(StoreBatch(["y"])).sent[0].counter
      var batch = StoreBatch()
      batch.finished = [counter]
      _ = try store.commit(batch)
    }
    // Checkpoints bring the log into the file, which then is as short as what it holds.
    try rows(in: store).run("PRAGMA wal_checkpoint(TRUNCATE)")
    #expect(try size(place.path) < 600_000)
    #expect(full < 10_000_000)
    #expect(store.unfinished == 0)
  }

  private func rows(in store: MessageStore) throws -> Rows { Rows(database: store.database) }

  private struct Rows {
    let database: Database
    func callAsFunction(_ sql: String) throws(StoreError) -> Int64 { try database.number(sql) }
    func run(_ sql: String) throws(StoreError) { _ = try database.text(sql) }
  }

  private func size(_ path: String) throws -> Int {
    var status = stat()
    try #require(unsafe stat(path, &status) == 0)
    return Int(status.st_size)
  }
}
