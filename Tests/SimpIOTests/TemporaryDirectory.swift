import CSimpLinux
import Glibc
import Testing

/// A directory that goes with this object.
final class TemporaryDirectory {
  let path: String

  init() throws {
    var template = Array("/tmp/simp-io-XXXXXX".utf8CString)
    let isMade = unsafe template.withUnsafeMutableBufferPointer { unsafe mkdtemp($0.baseAddress!) != nil }
    try #require(isMade)
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit {
    for name in ["output", "lock"] { unsafe unlink(path + "/" + name) }
    unsafe rmdir(path)
  }
}

/// A small text file, whole.
func readFile(_ path: String) throws -> String {
  let fd = unsafe open(path, O_RDONLY)
  try #require(fd >= 0)
  defer { close(fd) }
  var bytes = [UInt8](repeating: 0, count: 4096)
  let count = unsafe read(fd, &bytes, bytes.count)
  return String(decoding: bytes[..<max(count, 0)], as: UTF8.self)
}

/// Tries what needs a descriptor of this process to be closed for good. A program that another test is starting at this
/// moment has a copy of it until it runs; so it is tried again, for at most 20 seconds.
func whenCopiesAreGone<T>(_ body: () throws -> T) throws -> T {
  let deadline = simp_monotonic_nanoseconds() + 20_000_000_000
  while true {
    do {
      return try body()
    } catch {
      if simp_monotonic_nanoseconds() > deadline { throw error }
      sched_yield()
    }
  }
}
