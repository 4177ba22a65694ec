import Glibc
import ProgramRig
import SimpCore
import Testing

@testable import SimpStore

/// Each way in which a store cannot be had, made for real.
@Suite(.timeLimit(.minutes(5)))
struct StoreErrorTests {
  @Test func aSecondProcessIsTold() async throws {
    let place = try StorePlace()
    let first = try await place.rig("hold")
    try await first.wait(for: "open")
    #expect(throws: StoreError.inUse(path: place.path)) { try place.open() }
    // Also by another name of the same file.
    let other = place.path + "-link"
    #expect(unsafe symlink(place.path, other) == 0)
    #expect(throws: StoreError.inUse(path: other)) { try MessageStore(path: other) }
    first.signal(SIGKILL)
    #expect(try await first.end() == 128 + SIGKILL)
    // The lock ends with the process.
    _ = try place.open()
  }

  @Test func twiceInOneProcessIsOnceTooOften() throws {
    let place = try StorePlace()
    do {
      let store = try place.open()
      #expect(throws: StoreError.inUse(path: place.path)) { try place.open() }
      // The first one has its lock still.
      #expect(throws: StoreError.inUse(path: place.path)) { try place.open() }
      _ = try store.commit(StoreBatch(["a"]))
    }
    #expect(try place.open().contents.outbox.messages.count == 1)
  }

  @Test func aFileThatIsNoStore() throws {
    let place = try StorePlace()
    try TestDirectory.write(String(repeating: "something else\n", count: 1000), to: place.path)
    #expect(throws: StoreError.notAStore(path: place.path, "it holds something else")) { try place.open() }
    #expect(TestDirectory.read(place.path).hasPrefix("something else\n"))
    let short = place.path + "-short"
    try TestDirectory.write("x", to: short)
    #expect(throws: StoreError.self) { try MessageStore(path: short) }
  }

  @Test func anotherProgramsDataBase() throws {
    let place = try StorePlace()
    let descriptor = unsafe creat(place.path, 0o600)
    close(descriptor)
    do {
      let database = try Database(path: place.path)
      try database.run("CREATE TABLE mail (text TEXT)")
    }
    #expect(throws: StoreError.notAStore(path: place.path, "another program made it")) { try place.open() }
  }

  /// Each state in which a process can be killed while it makes a store.
  @Test(arguments: [
    "", "PRAGMA auto_vacuum = INCREMENTAL", "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA application_id = 0x53494D50",
    "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA application_id = 0x53494D50; PRAGMA journal_mode = WAL",
  ])
  func oneThatWasBegun(sql: String) throws {
    let place = try StorePlace()
    let descriptor = unsafe creat(place.path, 0o600)
    close(descriptor)
    do {
      let database = try Database(path: place.path)
      try database.run(sql)
    }
    do {
      let store = try place.open()
      _ = try store.commit(StoreBatch(["a"]))
      #expect(try store.database.number("PRAGMA auto_vacuum") == 2)
    }
    #expect(try place.open().contents.outbox.messages.count == 1)
  }

  @Test func aDirectory() throws {
    let place = try StorePlace()
    #expect(throws: StoreError.notAStore(path: place.directory.path, "it is a directory")) {
      try MessageStore(path: place.directory.path)
    }
    #expect(throws: StoreError.notAStore(path: "/dev/null", "it is not a plain file")) {
      try MessageStore(path: "/dev/null")
    }
    let nowhere = place.directory.path + "/no/store"
    #expect(throws: StoreError.noAccess(path: nowhere, "No such file or directory")) {
      try MessageStore(path: nowhere)
    }
  }

  @Test func aLaterVersion() throws {
    let place = try StorePlace()
    do {
      let store = try place.open()
      _ = try store.commit(StoreBatch(["a"]))
      try store.database.run("PRAGMA user_version = 2")
    }
    #expect(throws: StoreError.newerVersion(path: place.path, 2)) { try place.open() }
    #expect(throws: StoreError.newerVersion(path: place.path, 2)) { try place.open() }
  }

  @Test func damage() throws {
    let place = try StorePlace()
    do {
      let store = try place.open()
      _ = try store.commit(StoreBatch(["a"]))
      try store.database.run("UPDATE outbox SET content = x'2201'")
    }
    #expect(throws: StoreError.damaged(path: place.path, "a message of the outbox")) { try place.open() }
  }

  @Test(.enabled(if: geteuid() == 0)) func itIsForItsUserAlone() throws {
    let place = try StorePlace()
    do {
      let before = umask(0)
      defer { umask(before) }
      let store = try place.open()
      _ = try store.commit(StoreBatch(["a"]))
      for name in ["", "-wal", "-handover"] {
        var status = stat()
        #expect(unsafe stat(place.path + name, &status) == 0 && status.st_mode & 0o777 == 0o600, "\(name)")
      }
    }
    #expect(unsafe chmod(place.path, 0o644) == 0)
    _ = try place.open()
    var status = stat()
    #expect(unsafe stat(place.path, &status) == 0 && status.st_mode & 0o777 == 0o600)
  }

  @Test(.enabled(if: SmallDisk.isPossible)) func aReadOnlyDisk() throws {
    let disk = try SmallDisk()
    let path = disk.path + "/store"
    do {
      let store = try MessageStore(path: path)
      _ = try store.commit(StoreBatch(["a"]))
    }
    try disk.setReadOnly(true)
    #expect(throws: StoreError.readOnly(path: path)) { try MessageStore(path: path) }
    #expect(throws: StoreError.readOnly(path: path + "-new")) { try MessageStore(path: path + "-new") }
    try disk.setReadOnly(false)
    #expect(try MessageStore(path: path).contents.outbox.messages.map(\.content.text) == ["a"])
  }

  @Test(.enabled(if: SmallDisk.isPossible)) func aFullDisk() throws {
    let disk = try SmallDisk()
    let path = disk.path + "/store"
    let text = String(repeating: "x", count: 10_000)
    var kept = 0
    do {
      let store = try MessageStore(path: path)
      _ = try store.commit(StoreBatch([text]))
      kept += 1
      disk.fill()
      #expect(throws: StoreError.diskFull(path: path)) {
        while kept < 1000 {
          _ = try store.commit(StoreBatch([text]))
          kept += 1
        }
      }
      #expect(kept < 1000 && store.unfinished == kept)
      // Nor is anything taken now.
      #expect(throws: StoreError.diskFull(path: path)) { try store.commit(StoreBatch([text])) }
      // With room it goes on, and no number was used up.
      disk.makeRoom()
      #expect(try store.commit(StoreBatch([text])).sent[0] == (UInt64(kept) + 1, UInt64(kept) + 1))
      kept += 1
      disk.fill()
    }
    // A new file finds no room at all; what is there is there still.
    #expect(throws: StoreError.diskFull(path: path + "-new")) { try MessageStore(path: path + "-new") }
    disk.makeRoom()
    let store = try MessageStore(path: path)
    #expect(store.contents.outbox.messages.map(\.order) == (1...UInt64(kept)).map { $0 })
  }

  @Test func aLimitOfTheProcess() async throws {
    let place = try StorePlace()
    let rig = try await place.rig("fill", "1000000")
    #expect(try await rig.end() == 1)
    #expect(rig.lines.last == "\(StoreError.diskFull(path: place.path))")
    let kept = rig.numbers("kept")
    #expect(kept.count > 10)
    #expect(try place.open().contents.outbox.messages.map(\.order) == kept)
  }
}
