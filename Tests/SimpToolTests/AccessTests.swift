import ProgramRig
import SimpConnection
import SimpIO
import SimpSupport
import SimpToken
import Testing

@testable import SimpTool

struct AccessTests {
  private func access(_ arguments: [String], _ environment: [String: String] = [:]) throws -> Access {
    let settings = try Settings(
      flags: Access.flags, arguments: ArgumentReader(flags: Access.flags).read(arguments),
      environment: { environment[$0] })
    return try Access(settings, environment: { environment[$0] })
  }

  private func complaint(_ arguments: [String], _ environment: [String: String] = [:]) throws -> String {
    try #require(throws: UsageError.self) { try access(arguments, environment) }.description
  }

  @Test func withoutATokenItSaysHowToGetOne() throws {
    for environment in [[:], ["SIMP_TOKEN": ""], ["SIMP_TOKEN": " \n"]] {
      #expect(try complaint([], environment).contains("simp token USER --key FILE"))
    }
  }

  @Test func theServerComesFromFlagThenEnvironment() throws {
    let environment = ["SIMP_TOKEN": "t", "SIMP_SERVER": "there:1"]
    #expect(try access([], ["SIMP_TOKEN": "t"]).server == "127.0.0.1:7467")
    #expect(try access([], environment).server == "there:1")
    #expect(try access(["--server", "here:2"], environment).server == "here:2")
  }

  @Test func aTokenFileIsReadAgainForEachLogin() async throws {
    let directory = try TestDirectory()
    let path = directory.path + "/token"
    #expect(try complaint(["--token-file", path]).contains(path))
    try TestDirectory.write(" \n", to: path)
    #expect(try complaint(["--token-file", path]).contains("holds no token"))
    try TestDirectory.write("one\n", to: path)
    let provider = try #require(access(["--token-file", path], ["SIMP_TOKEN": "other"]).configuration.tokenProvider)
    #expect(try await provider() == "one")
    try TestDirectory.write("two\n", to: path)
    #expect(try await provider() == "two")
  }

  @Test func aKeyMakesTokensForOneself() async throws {
    let directory = try TestDirectory()
    let path = directory.path + "/key"
    let key = try TokenKey.make(path: path)
    let provider = try #require(
      access(["--as", "alice", "--key", path], ["SIMP_TOKEN": "other"]).configuration.tokenProvider)
    let claims = try Tokens.check(try await provider(), key: key, now: EventLoop.wallClockSeconds)
    #expect(claims.user == "alice")
    #expect(try complaint(["--as", "a b", "--key", path]).contains("a b"))
    #expect(try complaint(["--as", "alice", "--key", path + "x"]).contains("no such signing key"))
    #expect(try complaint(["--as", "alice", "--key", path, "--token-file", path]).contains("one of them"))
  }
}
