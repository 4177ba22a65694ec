internal import SimpIO
internal import SimpSupport
internal import SimpToken

/// `simp token USER`: prints a token.
enum TokenCommand {
  /// Where a server that was told nothing keeps its key.
  static let defaultKey = "simp-state/signing.key"

  static let subcommand = Subcommand(
    "token", words: "USER", wordCount: 1...1, summary: "prints a token that lets USER in",
    flags: [
      Flag("key", placeholder: "FILE", default: defaultKey, isSetting: true, help: "the server's signing key"),
      Flag("ttl", placeholder: "TIME", default: "1h", help: "how long the token lasts: 90s, 1h, 7d"),
    ],
    notes: """
      The key is made by the server at its first start, in its state directory.

      example: export SIMP_TOKEN=$(simp token alice --key simp-state/signing.key)
      """
  ) { settings, words throws(UsageError) in
    let ttl = try settings.duration("ttl", in: .seconds(1)...(.seconds(3_155_760_000))) ?? .seconds(3600)
    try UsageError.checkUser(words[0])
    let token: String
    do throws(TokenError) {
      let key = try TokenKey.load(path: settings.string("key") ?? defaultKey)
      token = try Tokens.mint(
        user: words[0], key: key, ttlSeconds: UInt64(ttl.components.seconds), now: EventLoop.wallClockSeconds)
    } catch {
      Terminal.say("simp: \(error)\n--key names the server's key, as in --key STATE/signing.key")
      return ExitCode.failed
    }
    let output = Output()
    output.line(token)
    return output.status(ExitCode.ok)
  }
}
