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
      Flag("key", placeholder: "FILE", default: defaultKey, isSetting: true, help: "the server's key file"),
      Flag("kid", placeholder: "NAME", help: "which key of the file (none: the last that can sign)"),
      Flag("ttl", placeholder: "TIME", default: "1h", help: "how long the token lasts: 90s, 1h, 7d"),
      Flag("not-before", placeholder: "TIME", help: "nbf: it is good only this long from now"),
      Flag("audience", placeholder: "TEXT", help: "aud, for a server with --audience"),
      Flag("issuer", placeholder: "TEXT", help: "iss, for a server with --issuer"),
      Flag("admin", help: "its bearer may use simp admin"),
    ],
    notes: """
      The key is made by the server at its first start, in its state directory, or by simp-server genkey. It also says
      how the token is signed: HS256, RS256 or ES256.

      example: export SIMP_TOKEN=$(simp token alice --key simp-state/signing.key)
      """
  ) { settings, words throws(UsageError) in
    let ttl = try settings.duration("ttl", in: .seconds(1)...(.seconds(3_155_760_000))) ?? .seconds(3600)
    let delay = try settings.duration("not-before", in: .zero ... .seconds(3_155_760_000))
    try UsageError.checkUser(words[0])
    let now = EventLoop.wallClockSeconds
    var grant = TokenGrant(user: words[0], lifetimeSeconds: UInt64(ttl.components.seconds))
    grant.notBefore = delay.map { now + UInt64($0.components.seconds) }
    grant.audience = settings.string("audience")
    grant.issuer = settings.string("issuer")
    grant.isAdmin = try settings.isOn("admin")
    let token: String
    do throws(TokenError) {
      let key = try TokenKey.load(path: settings.string("key") ?? defaultKey, name: settings.string("kid"))
      token = try Tokens.mint(grant, key: key, now: now)
    } catch {
      Terminal.say("simp: \(error)\n--key names the server's key, as in --key STATE/signing.key")
      return ExitCode.failed
    }
    let output = Output()
    output.line(token)
    return output.status(ExitCode.ok)
  }
}
