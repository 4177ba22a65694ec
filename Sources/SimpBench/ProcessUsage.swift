internal import Glibc
internal import SimpSupport

/// Processor time that processes used, in seconds.
enum ProcessUsage {
  /// Of this process, all threads, user and system.
  static var own: Double {
    var usage = rusage()
    // SAFETY: fills a local structure.
    unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
    return seconds(usage.ru_utime) + seconds(usage.ru_stime)
  }

  /// Of another process; nil when it cannot be read.
  static func of(_ pid: Int32) -> Double? {
    // utime and stime are fields 14 and 15, the first after the name is 3.
    guard let fields = fields(pid), fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12])
    else { return nil }
    return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
  }

  /// What stands in /proc/PID/stat behind the name.
  private static func fields(_ pid: Int32) -> [Substring]? {
    guard let bytes = try? FileContents.read(path: "/proc/\(pid)/stat", maximumBytes: 4096) else { return nil }
    // The name in parentheses may hold anything; what follows the last parenthesis is numbers.
    let text = String(decoding: bytes, as: UTF8.self)
    return text.lastIndex(of: ")").map { text[text.index(after: $0)...].split(separator: " ") }
  }

  /// The processes of this machine.
  static var all: [Int32] { names(in: "/proc").compactMap { Int32($0) } }

  /// What is in a directory.
  static func names(in path: String) -> [String] {
    // SAFETY: the handle is closed once, and an entry is read before the next call.
    guard let directory = unsafe opendir(path) else { return [] }
    defer { unsafe closedir(directory) }
    var found: [String] = []
    while let entry = unsafe readdir(directory) {
      let name = unsafe withUnsafeBytes(of: entry.pointee.d_name) { bytes in
        unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
      if name != ".", name != ".." { found.append(name) }
    }
    return found
  }

  /// Its words, or the title that it gave itself; empty when it is gone.
  static func commandLine(_ pid: Int32) -> String {
    let bytes = (try? FileContents.read(path: "/proc/\(pid)/cmdline", maximumBytes: 65_536)) ?? []
    return String(decoding: bytes, as: UTF8.self)
  }

  static func parent(of pid: Int32) -> Int32? { fields(pid).flatMap { $0.count > 1 ? Int32($0[1]) : nil } }

  /// Resident memory of a process in bytes; nil when it cannot be read.
  static func resident(_ pid: Int32) -> Int? {
    guard let bytes = try? FileContents.read(path: "/proc/\(pid)/status", maximumBytes: 65_536) else { return nil }
    for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") where line.hasPrefix("VmRSS:") {
      return line.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) }.map { $0 * 1024 }
    }
    return nil
  }

  /// Raises the soft limit of open files to the hard one.
  ///
  /// - Returns: how many files may be open.
  static func raiseFileLimit() -> Int {
    var limit = rlimit()
    // SAFETY: both calls use a local structure.
    guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 1024 }
    limit.rlim_cur = limit.rlim_max
    unsafe _ = setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    return Int(clamping: limit.rlim_cur)
  }
}
