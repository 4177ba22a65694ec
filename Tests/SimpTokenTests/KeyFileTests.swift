import Glibc
import Testing

@testable import SimpToken

@Suite final class KeyFileTests {
  let directory: String

  init() {
    var template = Array("/tmp/simp-key-XXXXXX".utf8CString)
    directory = unsafe String(cString: mkdtemp(&template)!)
  }

  deinit {
    for name in ["signing.key", "other"] { unsafe unlink("\(directory)/\(name)") }
    unsafe rmdir(directory)
  }

  var path: String { "\(directory)/signing.key" }

  @Test func madeKeysAreLoadedAgain() throws {
    let made = try TokenKey.make(path: path)
    let token = try Tokens.mint(user: "bob", key: made, ttlSeconds: 60, now: 1000)
    #expect(try Tokens.check(token, key: TokenKey.load(path: path), now: 1000).user == "bob")
    var status = stat()
    #expect(unsafe stat(path, &status) == 0)
    #expect(status.st_mode & 0o777 == 0o600)
    #expect(status.st_size == 65)
    #expect(status.st_nlink == 1)
    #expect(names() == ["signing.key"])
  }

  @Test func noTwoKeysAreTheSame() throws {
    let first = try TokenKey.make(path: path)
    let second = try TokenKey.make(path: "\(directory)/other")
    let token = try Tokens.mint(user: "bob", key: first, ttlSeconds: 60, now: 1000)
    #expect(throws: TokenError.self) { try Tokens.check(token, key: second, now: 1000) }
  }

  @Test func nothingIsOverwritten() throws {
    write("mine", mode: 0o600)
    #expect(code { try TokenKey.make(path: path) } == .keyExists)
    #expect(names() == ["signing.key"])
    #expect(throws: TokenError.self) { try TokenKey.load(path: path) }
  }

  @Test(arguments: [0o640, 0o604, 0o610, 0o644, 0o777] as [mode_t])
  func wideModesAreRefused(mode: mode_t) throws {
    try TokenKey.make(path: path)
    unsafe chmod(path, mode)
    #expect(code { try TokenKey.load(path: path) } == .badKey)
    #expect(message { try TokenKey.load(path: path) }.contains("chmod 600"))
    unsafe chmod(path, 0o400)
    #expect(code { try TokenKey.load(path: path) } == nil)
  }

  @Test(arguments: ["", "\n", "zz", "abc", String(repeating: "a", count: 62), String(repeating: "a", count: 300)])
  func filesThatHoldNoKey(contents: String) {
    write(contents, mode: 0o600)
    #expect(code { try TokenKey.load(path: path) } == .badKey)
  }

  @Test func whiteSpaceAroundAKeyIsNoMatter() {
    write(" \t\(String(repeating: "aB", count: 32))\r\n\n", mode: 0o600)
    #expect(code { try TokenKey.load(path: path) } == nil)
  }

  @Test func whatIsNoFile() {
    #expect(message { try TokenKey.load(path: path) }.contains("no such signing key"))
    #expect(code { try TokenKey.load(path: directory) } == .badKey)
    #expect(code { try TokenKey.make(path: "\(directory)/none/signing.key") } == .badKey)
    unsafe mkfifo(path, 0o600)
    #expect(code { try TokenKey.load(path: path) } == .badKey)
  }

  private func write(_ text: String, mode: mode_t) {
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL, mode)
    let count = unsafe Glibc.write(descriptor, text, text.utf8.count)
    precondition(count == text.utf8.count)
    close(descriptor)
  }

  private func names() -> [String] {
    guard let stream = unsafe opendir(directory) else { return [] }
    defer { unsafe closedir(stream) }
    var names: [String] = []
    while let entry = unsafe readdir(stream) {
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { pointer in
        unsafe pointer.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      if name != "." && name != ".." { names.append(name) }
    }
    return names.sorted()
  }

  private func code(_ body: () throws -> TokenKey) -> TokenError.Code? { error(of: { _ = try body() })?.code }
  private func message(_ body: () throws -> TokenKey) -> String { error(of: { _ = try body() })?.description ?? "" }
  private func error(of body: () throws -> Void) -> TokenError? {
    do { try body() } catch { return error as? TokenError }
    return nil
  }
}
