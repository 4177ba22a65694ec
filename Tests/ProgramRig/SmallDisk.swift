import Glibc

/// A file system of its own that is small, can be filled, and made read-only. For root alone.
public final class SmallDisk: Sendable {
  private let directory: TestDirectory
  public var path: String { directory.path }

  /// Whether this process may make one.
  public static let isPossible: Bool = (try? SmallDisk()) != nil

  public init(kibibytes: Int = 2048) throws {
    directory = try TestDirectory()
    // SAFETY: texts that live for the call.
    let status = unsafe "size=\(kibibytes)k".withCString { unsafe mount("none", directory.path, "tmpfs", 0, $0) }
    guard status == 0 else { throw RunningProgram.Trouble(description: "mount: errno \(errno)") }
  }

  public func setReadOnly(_ isReadOnly: Bool) throws {
    let flags = UInt(MS_REMOUNT) | (isReadOnly ? UInt(MS_RDONLY) : 0)
    guard unsafe mount("none", path, nil, flags, nil) == 0 else {
      throw RunningProgram.Trouble(description: "remount: errno \(errno)")
    }
  }

  /// Takes all room that is left.
  public func fill() {
    let descriptor = unsafe open(path + "/filler", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    defer { close(descriptor) }
    for size in [65_536, 4096, 1] {
      let bytes = [UInt8](repeating: 0, count: size)
      // SAFETY: writes out of `bytes` only, which outlives the call.
      while unsafe bytes.withUnsafeBytes({ unsafe write(descriptor, $0.baseAddress, $0.count) }) > 0 {}
    }
  }

  public func makeRoom() { unsafe unlink(path + "/filler") }

  deinit { unsafe umount2(path, Int32(MNT_DETACH)) }
}
