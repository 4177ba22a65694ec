internal import Glibc

/// What an `EmbeddedRedis` has in the file system, and the command line that follows from it.
struct EmbeddedRedisFiles {
  let stateDirectory: String
  /// 0: no limit.
  let maximumMemoryBytes: Int

  var directory: String { "\(stateDirectory)/redis" }
  var socket: String { "\(directory)/redis.sock" }
  var log: String { "\(directory)/redis.log" }

  /// Makes the directory.
  ///
  /// - Throws: `cannotStart` with a remedy.
  func prepare() throws(RedisError) {
    guard socket.utf8.count <= RedisAddress.maximumPathBytes else {
      throw RedisError(
        .cannotStart,
        "\(socket): a socket's path has at most \(RedisAddress.maximumPathBytes) bytes, this one has"
          + " \(socket.utf8.count); choose a state directory with a shorter path")
    }
    // SAFETY: the paths are C strings for the length of the calls, the status is local.
    if unsafe mkdir(directory, 0o700) != 0, errno != EEXIST {
      throw cannot("make", errno)
    }
    var status = stat()
    guard unsafe lstat(directory, &status) == 0 else { throw cannot("look at", errno) }
    guard status.st_mode & S_IFMT == S_IFDIR else {
      throw RedisError(.cannotStart, "\(directory): not a directory; move it away")
    }
    guard status.st_uid == geteuid() else {
      throw RedisError(.cannotStart, "\(directory): belongs to another user; choose another state directory")
    }
    if status.st_mode & 0o077 != 0, unsafe chmod(directory, 0o700) != 0 { throw cannot("change the mode of", errno) }
    guard unsafe access(directory, W_OK | X_OK) == 0 else { throw cannot("write to", errno) }
  }

  private func cannot(_ what: String, _ code: Int32) -> RedisError {
    // SAFETY: the text of strerror is copied at once.
    let reason = unsafe String(cString: strerror(code))
    return RedisError(.cannotStart, "cannot \(what) \(directory): \(reason)", systemCode: code)
  }

  /// The directories of the process's own PATH.
  static var processPath: String {
    // SAFETY: nothing in the project changes the environment, so the C string stays while it is copied.
    unsafe getenv("PATH").map { unsafe String(cString: $0) } ?? "/usr/local/bin:/usr/bin:/bin"
  }

  /// Where redis-server is.
  ///
  /// - Throws: `cannotStart` that names the package when it is in no directory of `searchPath`.
  func program(searchPath: String) throws(RedisError) -> String {
    for directory in searchPath.split(separator: ":") {
      let path = "\(directory)/redis-server"
      // SAFETY: the path is a C string for the length of the call.
      if unsafe access(path, X_OK) == 0 { return path }
    }
    throw RedisError(
      .cannotStart, "redis-server is not installed: apt install redis-server, or name a running Redis with --redis",
      systemCode: ENOENT)
  }

  /// Nothing of a system-wide configuration is read: all that matters is said here.
  var arguments: [String] {
    [
      "--port", "0", "--unixsocket", socket, "--unixsocketperm", "700", "--dir", directory, "--logfile", log,
      // STORED is said only of what is on the disk.
      "--appendonly", "yes", "--appendfsync", "always", "--save", "",
      // Messages are no cache: a full memory refuses, and forgets nothing.
      "--maxmemory", "\(maximumMemoryBytes)", "--maxmemory-policy", "noeviction", "--databases", "1", "--daemonize",
      "no",
    ]
  }
}
