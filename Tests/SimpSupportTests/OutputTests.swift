import Glibc
import SimpSupport
import Testing

@Suite(.serialized) struct OutputTests {
  @Test func everythingArrivesThroughASlowPipe() async throws {
    let (reader, writer) = makePipe()
    #expect(fcntl(writer, F_SETFL, O_NONBLOCK) == 0)
    let output = OutputWriter(descriptor: writer)
    // More than a pipe holds: the writer has to wait for the reader.
    let lines = (0..<20_000).map { "line \($0) of the text" }
    let reading = Task.detached { Self.readAll(reader) }
    for line in lines { try output.line(line) }
    endOutput(writer)
    let text = await reading.value
    #expect(String(decoding: text, as: UTF8.self) == lines.map { $0 + "\n" }.joined())
    close(reader)
  }

  @Test func aClosedReaderIsAnError() {
    let (reader, writer) = makePipe()
    // Blocked in this thread alone, and taken out again: the other tests keep the process's disposition.
    var signals = sigset_t()
    unsafe sigemptyset(&signals)
    unsafe sigaddset(&signals, SIGPIPE)
    unsafe pthread_sigmask(SIG_BLOCK, &signals, nil)
    shutdown(writer, Int32(SHUT_RDWR))
    let failure = #expect(throws: OutputWriter.Failure.self) { try OutputWriter(descriptor: writer).line("x") }
    #expect(failure?.isClosed == true)
    #expect(failure?.code == EPIPE)
    var atOnce = timespec()
    let taken = unsafe sigtimedwait(&signals, nil, &atOnce)
    #expect(taken == SIGPIPE)
    unsafe pthread_sigmask(SIG_UNBLOCK, &signals, nil)
    close(writer)
    close(reader)
  }

  @Test func aFullDiskIsAnError() {
    let full = unsafe open("/dev/full", O_WRONLY | O_CLOEXEC)
    let failure = #expect(throws: OutputWriter.Failure.self) { try OutputWriter(descriptor: full).write("x") }
    #expect(failure?.code == ENOSPC)
    #expect(failure?.description == "cannot write the output: the disk is full")
    close(full)
  }

  /// A pair of sockets, so that an end can be shut down: a program that another test starts just now may hold copies
  /// of both descriptors, and closing ours would then mean nothing.
  private func makePipe() -> (reader: Int32, writer: Int32) {
    var ends: [Int32] = [0, 0]
    let status = unsafe socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends)
    precondition(status == 0)
    return (ends[0], ends[1])
  }

  private func endOutput(_ writer: Int32) {
    shutdown(writer, Int32(SHUT_WR))
    close(writer)
  }

  private static func readAll(_ descriptor: Int32) -> [UInt8] {
    var all: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = unsafe read(descriptor, &chunk, chunk.count)
      if count <= 0 { return all }
      all += chunk[..<count]
    }
  }
}
