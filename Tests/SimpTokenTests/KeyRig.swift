import Glibc

@testable import SimpToken

/// A directory for key files, which goes with it.
final class KeyRig {
  let directory: String
  var path: String { "\(directory)/keys.json" }

  init() throws {
    var template = Array("/tmp/simp-keys-XXXXXX".utf8CString)
    // SAFETY: mkdtemp changes the six last letters of the template in place.
    guard unsafe mkdtemp(&template) != nil else { throw TokenError(.failed, "mkdtemp: errno \(errno)") }
    directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit {
    unsafe unlink(path)
    unsafe rmdir(directory)
  }

  /// A key in a set of its own.
  func make(_ algorithm: TokenAlgorithm) throws -> TokenKey {
    try KeyMaker.add(algorithm, name: "\(algorithm.name)-1", path: path, replaces: false).key
  }

  func write(_ text: String, mode: mode_t = 0o600) {
    unsafe unlink(path)
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    // SAFETY: the text is a C string of its own for the length of the call.
    let count = unsafe Glibc.write(descriptor, text, text.utf8.count)
    precondition(count == text.utf8.count && fchmod(descriptor, mode) == 0)
    close(descriptor)
  }

  var text: String {
    (try? KeyFile.read(path: path)).map { String(decoding: $0.contents, as: UTF8.self) } ?? ""
  }

  var mode: mode_t {
    var status = stat()
    return unsafe stat(path, &status) == 0 ? status.st_mode & 0o777 : 0
  }
}
