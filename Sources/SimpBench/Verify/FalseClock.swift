internal import Glibc

/// Wall clocks of other programs that can be moved while they run. The machine's own clock stays, and so does the
/// monotonic one.
struct FalseClock: Sendable {
  static let remedy = "needs libSimpFalseClock.so beside this program: build the whole package, swift build"

  /// The library that is loaded into such a program (Sources/CSimpFalseClock), if it is there.
  static let library: String? = {
    let path = PrivateServer.beside("libSimpFalseClock.so")
    return unsafe access(path, R_OK) == 0 ? path : nil
  }()

  /// The file that says how wrong the clocks are.
  let path: String

  /// What a program needs in its environment to have a false clock.
  var environment: [String] { Self.library.map { ["LD_PRELOAD=\($0)", "FALSE_CLOCK_FILE=\(path)"] } ?? [] }

  /// Moves the clocks to this many seconds off the true time.
  func set(offset: Int) throws(HistoryFile.Failure) {
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    defer { close(descriptor) }
    var offset = Int64(offset)
    // SAFETY: writes the 8 bytes of a local number. Who has the file mapped reads the old number or the new one.
    guard descriptor >= 0, unsafe pwrite(descriptor, &offset, 8, 0) == 8 else {
      throw HistoryFile.Failure(description: "\(path): cannot be written")
    }
  }
}
