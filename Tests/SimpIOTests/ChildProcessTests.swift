import Glibc
import SimpCore
import SimpIO
import Testing

@Suite struct ChildProcessTests {
  private func status(of script: String, output: ChildProcess.Output = .inherited) throws -> ChildProcess.Status? {
    var ended: ChildProcess.Status?
    try withLoop { loop in
      _ = try ChildProcess(loop: loop, program: "sh", arguments: ["-c", script], output: output) { status in
        ended = status
        loop.stop()
      }
    }
    return ended
  }

  @Test func itsExitIsTold() throws {
    #expect(try status(of: "exit 7") == .init(code: 7))
    #expect(try status(of: "exit 0") == .init(code: 0))
    #expect(try status(of: "kill -9 $$") == .init(code: 0, signal: 9))
  }

  @Test func itHasASessionOfItsOwnAndAnEmptyInput() throws {
    var ended: ChildProcess.Status?
    try withLoop { loop in
      let child = try ChildProcess(loop: loop, program: "/bin/sh", arguments: ["-c", "cat; exec sleep 1000"]) {
        status in
        ended = status
        loop.stop()
      }
      #expect(child.pid > 0 && child.pid != getpid())
      #expect(getsid(child.pid) == child.pid)
      #expect(child.status == nil)
      child.kill(SIGTERM)
    }
    #expect(ended == .init(code: 0, signal: SIGTERM))
  }

  @Test func environmentDirectoryAndOutputAreAsAsked() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/output"
    var isDone = false
    try withLoop { loop in
      _ = try ChildProcess(
        loop: loop, program: "/bin/sh", arguments: ["-c", #"echo "$WORD$HOME"; pwd >&2; echo "$0-$1""#, "zero", "a b"],
        environment: ["WORD=moon"], directory: "/", output: .file(path)
      ) { status in
        isDone = status == .init(code: 0)
        loop.stop()
      }
    }
    #expect(isDone)
    #expect(try readFile(path) == "moon\n/\nzero-a b\n")
    #expect(try status(of: "echo more", output: .file(path)) == .init(code: 0))
    #expect(try readFile(path) == "moon\n/\nzero-a b\nmore\n")
    #expect(try status(of: "echo nobody sees this", output: .discarded) == .init(code: 0))
  }

  @Test func aProgramThatIsNotThereIsAnError() throws {
    let loop = try EventLoop()
    defer { loop.close() }
    let error = #expect(throws: IOError.self) {
      _ = try ChildProcess(loop: loop, program: "/no/such/program") { _ in Issue.record("it never ran") }
    }
    #expect(error?.code == ENOENT)
    #expect(error?.description.contains("/no/such/program") == true)
  }

  @Test func signalsReachAChildOfALoopThatBlocksThem() async throws {
    let loop = try EventLoop()
    loop.startThread(name: "test-loop")
    let status = await withCheckedContinuation { (done: CheckedContinuation<ChildProcess.Status?, Never>) in
      loop.execute {
        let child = try? ChildProcess(loop: loop, program: "sh", arguments: ["-c", "kill -TERM $$; exit 3"]) { status in
          done.resume(returning: status)
        }
        if child == nil { done.resume(returning: nil) }
      }
    }
    loop.close()
    #expect(status == .init(code: 0, signal: SIGTERM))
  }

  @Test func closedItRunsOn() throws {
    let loop = try EventLoop()
    defer { loop.close() }
    let child = try ChildProcess(loop: loop, program: "sleep", arguments: ["1000"]) { _ in
      Issue.record("an exit after close")
    }
    child.close()
    child.close()
    child.kill(SIGTERM)
    #expect(kill(child.pid, SIGKILL) == 0)
    var status: Int32 = 0
    let reaped = unsafe waitpid(child.pid, &status, 0)
    #expect(reaped == child.pid)
    #expect(status & 0x7F == SIGKILL, "it ran until our own signal, kill after close did nothing")
  }
}
