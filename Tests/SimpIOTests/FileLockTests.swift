import Glibc
import SimpCore
import SimpIO
import Testing

@Suite struct FileLockTests {
  @Test func oneHolderAtATime() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/lock"
    do {
      let lock = try FileLock(path: path)
      let error = #expect(throws: IOError.self) { _ = try FileLock(path: path) }
      #expect(error?.code == EWOULDBLOCK)
      #expect(error?.description == "lock \(path): process \(getpid()) holds it")
      _ = lock.path
    }
    _ = try whenCopiesAreGone { try FileLock(path: path) }
    #expect(try readFile(path) == "\(getpid())\n")
  }

  @Test func anotherProcessSeesIt() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/lock"
    let lock = try FileLock(path: path)
    var codes: [Int32] = []
    try withLoop { loop in
      _ = try ChildProcess(loop: loop, program: "flock", arguments: ["-n", path, "true"]) { status in
        codes.append(status.code)
        loop.stop()
      }
    }
    #expect(codes == [1])
    #expect(lock.path == path)
  }

  @Test func aPathThatIsNotThereSaysSo() {
    let error = #expect(throws: IOError.self) { _ = try FileLock(path: "/no/such/directory/lock") }
    #expect(error?.code == ENOENT)
    #expect(error?.description.contains("/no/such/directory/lock") == true)
  }
}
