import Glibc
import SimpIO
import Testing

@testable import SimpTool

struct InputTests {
  @Test func readsNothingAheadOfWhatIsAskedFor() async throws {
    let pipe = try Pipe()
    let input = try StandardInput(descriptor: pipe.reading)
    pipe.write("one\ntw")
    #expect(await input.next() == [.text("one")])
    pipe.write("o\nthree")
    #expect(await input.next() == [.text("two")])
    pipe.closeWriting()
    #expect(await input.next() == [.text("three")])
    #expect(await input.next() == nil)
    #expect(input.failure == nil)
  }

  @Test func aCancelledWaitEnds() async throws {
    let pipe = try Pipe()
    let input = try StandardInput(descriptor: pipe.reading)
    let task = Task { await input.next() }
    task.cancel()
    #expect(await task.value == nil)
    pipe.closeWriting()
    // The read that was begun ends before the pipe's number can be another's.
    #expect(await input.next() == nil)
  }

  @Test func aFailedReadIsTold() async throws {
    let descriptor = unsafe open("/", O_RDONLY)
    defer { close(descriptor) }
    let input = try StandardInput(descriptor: descriptor)
    #expect(await input.next() == nil)
    #expect(input.failure?.contains("cannot read standard input") == true)
  }

  @Test func aGateKeepsOneAnnouncement() async {
    let gate = Gate()
    gate.open()
    gate.open()
    await gate.wait()
    let waiting = Task { await gate.wait() }
    gate.open()
    await waiting.value
    let cancelled = Task { await gate.wait() }
    cancelled.cancel()
    await cancelled.value
  }
}

/// A pipe whose ends close by themselves.
private final class Pipe {
  let reading: Int32
  private var writing: Int32

  init() throws {
    var ends: [Int32] = [0, 0]
    // Not inherited by the programs that other tests start meanwhile, or the end would never come.
    let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
    let status = unsafe socketpair(AF_UNIX, kind, 0, &ends)
    try #require(status == 0)
    (reading, writing) = (ends[0], ends[1])
  }

  func write(_ text: String) {
    let bytes = Array(text.utf8)
    // SAFETY: writes out of `bytes`, which outlives the call.
    let count = unsafe Glibc.write(writing, bytes, bytes.count)
    #expect(count == bytes.count)
  }

  func closeWriting() {
    if writing >= 0 { close(writing) }
    writing = -1
  }

  deinit {
    closeWriting()
    close(reading)
  }
}
