import Glibc

/// A directory for one test, removed with its contents when the test lets go of it.
public final class TestDirectory: Sendable {
  public let path: String

  public init() throws {
    var template = Array("/tmp/simp-test-XXXXXX".utf8CString)
    // SAFETY: mkdtemp changes the six last letters of the template in place.
    let isMade = unsafe template.withUnsafeMutableBufferPointer { unsafe mkdtemp($0.baseAddress!) != nil }
    guard isMade else { throw RunningProgram.Trouble(description: "mkdtemp: errno \(errno)") }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit { Self.remove(path) }

  // SAFETY (below): paths are C strings for the length of a call.

  private static func remove(_ directory: String) {
    for (name, isDirectory) in entries(directory) {
      if isDirectory { remove("\(directory)/\(name)") } else { unsafe unlink("\(directory)/\(name)") }
    }
    unsafe rmdir(directory)
  }

  /// The names of the directories in it.
  public var directories: [String] { Self.entries(path).filter(\.isDirectory).map(\.name) }

  private static func entries(_ path: String) -> [(name: String, isDirectory: Bool)] {
    // SAFETY: the handle is closed once, and an entry is read before the next call.
    guard let directory = unsafe opendir(path) else { return [] }
    defer { unsafe closedir(directory) }
    var found: [(String, Bool)] = []
    while let entry = unsafe readdir(directory) {
      let name = unsafe withUnsafeBytes(of: entry.pointee.d_name) { bytes in
        unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
      if name != ".", name != ".." { found.append((name, unsafe Int(entry.pointee.d_type) == Int(DT_DIR))) }
    }
    return found
  }

  public static func write(_ text: String, to path: String) throws {
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    defer { close(descriptor) }
    var rest = Array(text.utf8)[...]
    while descriptor >= 0, !rest.isEmpty {
      // SAFETY: writes out of `rest` only, which outlives the call.
      let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
      guard count > 0 else { break }
      rest = rest.dropFirst(count)
    }
    guard descriptor >= 0, rest.isEmpty else {
      throw RunningProgram.Trouble(description: "\(path) cannot be written: errno \(errno)")
    }
  }

  /// The contents, empty when there is no such file.
  public static func read(_ path: String) -> String {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return "" }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while true {
      // SAFETY: reads into `chunk` only, which outlives the call.
      let count = unsafe chunk.withUnsafeMutableBytes { unsafe Glibc.read(descriptor, $0.baseAddress, $0.count) }
      guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
      bytes += chunk[..<count]
    }
  }
}
