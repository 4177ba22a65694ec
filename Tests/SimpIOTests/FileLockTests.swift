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
    _ = try FileLock(path: path)
    #expect(try readFile(path) == "\(getpid())\n")
  }

  /// As a child has one between fork and exec.
  @Test func aCopyOfTheDescriptorDoesNotKeepIt() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/lock"
    var copy: Int32 = -1
    do {
      let lock = try FileLock(path: path)
      let descriptor = try #require((3..<4096).first { target(of: $0) == lock.path })
      copy = dup(descriptor)
    }
    #expect(copy >= 0 && target(of: copy) == path)
    _ = try FileLock(path: path)
    close(copy)
  }

  private func target(of descriptor: Int32) -> String? {
    // SAFETY: realpath allocated the text; it is copied, then freed once.
    guard let path = unsafe realpath("/proc/self/fd/\(descriptor)", nil) else { return nil }
    defer { unsafe free(path) }
    return unsafe String(cString: path)
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
