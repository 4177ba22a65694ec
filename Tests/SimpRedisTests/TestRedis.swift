import Glibc
import Testing

@testable import SimpRedis

/// A redis-server of a test's own on a Unix socket in a temporary directory, killed with the object.
final class TestRedis {
  let directory: TemporaryDirectory
  private(set) var pid: pid_t = 0
  private let options: [String]

  init(options: [String] = []) throws {
    directory = TemporaryDirectory()
    self.options = options
    try start()
  }

  deinit { kill() }

  var socket: String { "\(directory.path)/redis.sock" }
  var address: RedisAddress { .unix(path: socket) }

  /// Starts the server; it may take a moment until it answers.
  func start() throws {
    precondition(pid == 0)
    let words =
      [
        "redis-server", "--port", "0", "--unixsocket", socket, "--dir", directory.path, "--save", "",
        "--appendonly", "yes", "--logfile", "\(directory.path)/log",
      ] + options
    var pointers = unsafe words.map { unsafe strdup($0) } + [nil]
    defer { for index in unsafe pointers.indices { unsafe free(pointers[index]) } }
    // The threads of a test block signals now and then; the server must not start with that.
    var attributes = posix_spawnattr_t()
    var none = sigset_t()
    unsafe posix_spawnattr_init(&attributes)
    defer { unsafe posix_spawnattr_destroy(&attributes) }
    unsafe sigemptyset(&none)
    unsafe posix_spawnattr_setsigmask(&attributes, &none)
    unsafe posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
    let status = unsafe posix_spawnp(&pid, "redis-server", nil, &attributes, &pointers, environ)
    try #require(status == 0, "redis-server is not installed")
  }

  func signal(_ number: Int32) { Glibc.kill(pid, number) }

  /// kill -9, and waits for the end.
  func kill() {
    guard pid != 0 else { return }
    signal(SIGKILL)
    var status: Int32 = 0
    while unsafe waitpid(pid, &status, 0) < 0, errno == EINTR {}
    pid = 0
  }
}
