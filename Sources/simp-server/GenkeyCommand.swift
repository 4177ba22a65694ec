import Glibc
import SimpSupport
import SimpToken

/// `simp-server genkey`: makes a key for tokens.
enum GenkeyCommand {
  static let name = "genkey"

  private static let flags = [
    Flag(
      "algorithm", placeholder: "NAME", default: "es256",
      help: "es256 or rs256 (who checks tokens cannot make them), or hs256 (one secret)"),
    Flag("kid", placeholder: "NAME", help: "its name in tokens (none: the algorithm and a random number)"),
    Flag("keys", placeholder: "FILE", isSetting: true, help: "the key set (none: DIR/keys.json)"),
    Flag("state", placeholder: "DIR", default: "simp-state", isSetting: true, help: "the server's state directory"),
    Flag("replace", help: "a key of that name that is there makes room"),
    Flag("help", short: "h", help: "this text"),
  ]

  /// - Parameter arguments: those behind the name.
  /// - Returns: the exit status.
  /// - Throws: what is wrong with the arguments.
  static func run(_ arguments: ArraySlice<String>) throws(UsageError) -> Int32 {
    let reader = ArgumentReader(flags: flags)
    let arguments = try reader.read(arguments)
    if arguments.has("help") {
      print(help(reader))
      return ExitCode.ok
    }
    let settings = try Settings(flags: flags, arguments: arguments)
    let chosen = try settings.choice("algorithm", of: TokenAlgorithm.allCases.map(\.name)) ?? "es256"
    let algorithm = TokenAlgorithm.allCases.first { $0.name == chosen } ?? .es256
    let kid = settings.string("kid") ?? "\(chosen)-\(String(UInt32.random(in: .min ... .max), radix: 16))"
    let replaces = try settings.isOn("replace")
    let state = settings.string("state") ?? "simp-state"
    let path = settings.string("keys") ?? state + "/keys.json"
    // Before the first start there is none; if it cannot be made, writing the file says why.
    if settings.string("keys") == nil { _ = unsafe mkdir(state, 0o700) }
    do throws(TokenError) {
      let made = try KeyMaker.add(algorithm, name: kid, path: path, replaces: replaces)
      print(report(made, kid: kid, algorithm: algorithm, path: path))
      return ExitCode.ok
    } catch {
      Terminal.say("simp-server: \(error)")
      return ExitCode.failed
    }
  }

  private static func report(_ made: KeyMaker.Made, kid: String, algorithm: TokenAlgorithm, path: String) -> String {
    let next =
      made.isNewFile
      ? "start the server with --keys '\(path)'"
      : "SIGHUP has a running server read the file again"
    return """
      made the key \(kid) for \(algorithm.rawValue); \(path) holds \(made.count) now
      next: \(next)
      then: simp token USER --key '\(path)' --kid '\(kid)'
      """
  }

  private static func help(_ reader: ArgumentReader) -> String {
    """
    simp-server genkey: makes a key for tokens and puts it into a key set (JSON Web Key Set, RFC 7517).

    usage: simp-server genkey [flags]

    \(reader.help)
    The file is made with mode 0600, or the key added to those in it; no key is overwritten without --replace.

    To change keys without an interruption: genkey; SIGHUP, so that the server takes tokens of the new key; make tokens
    with the new one; when the last token of the old one is over, take its line out, and SIGHUP again.
    """
  }
}
