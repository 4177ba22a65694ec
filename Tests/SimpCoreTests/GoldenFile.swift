import Glibc

/// One file of Tests/Golden: lines `name = hex`, made by a codec that shares no code with ours.
struct GoldenFile {
  let values: [String: [UInt8]]

  init(_ name: String) throws {
    let folder = "/" + #filePath.split(separator: "/").dropLast(2).joined(separator: "/")
    let text = String(decoding: try Self.read("\(folder)/Golden/\(name)"), as: UTF8.self)
    var values: [String: [UInt8]] = [:]
    for line in text.split(separator: "\n") where !line.hasPrefix("#") {
      let parts = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map {
        $0.split(separator: " ").joined()
      }
      guard parts.count == 2, let bytes = Self.bytes(parts[1]) else { throw Failure.line(String(line)) }
      values[parts[0]] = bytes
    }
    self.values = values
  }

  enum Failure: Error {
    case file(String)
    case line(String)
    case missing(String)
  }

  func callAsFunction(_ name: String) throws -> [UInt8] {
    guard let bytes = values[name] else { throw Failure.missing(name) }
    return bytes
  }

  private static func bytes(_ hex: String) -> [UInt8]? {
    let digits = hex.compactMap(\.hexDigitValue)
    guard digits.count == hex.count, digits.count % 2 == 0 else { return nil }
    return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
  }

  private static func read(_ path: String) throws -> [UInt8] {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw Failure.file(path) }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65536)
    while true {
      // SAFETY: reads into `chunk` only, which outlives the call.
      let count = unsafe chunk.withUnsafeMutableBytes { unsafe Glibc.read(descriptor, $0.baseAddress, $0.count) }
      guard count > 0 else { return bytes }
      bytes += chunk[..<count]
    }
  }
}
