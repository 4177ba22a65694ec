import Glibc
import SimpIO
import SimpServer
import SimpSupport

@main
struct Main {
  static func main() {
    Terminal.ignoreBrokenPipes()
    let reader = ArgumentReader(flags: ServerConfiguration.flags)
    do throws(UsageError) {
      if CommandLine.arguments.dropFirst().first == GenkeyCommand.name {
        exit(try GenkeyCommand.run(CommandLine.arguments.dropFirst(2)))
      }
      if CommandLine.arguments.dropFirst().first == "help" {
        return print(try topic(CommandLine.arguments.dropFirst(2)))
      }
      let arguments = try reader.read(CommandLine.arguments.dropFirst())
      if arguments.has("help") { return print(help) }
      let file = try arguments.value("config").map { path throws(UsageError) in
        try ConfigurationFile.load(path: path)
      }
      let settings = try Settings(flags: ServerConfiguration.flags, arguments: arguments, file: file)
      let level = try settings.choice("log-level", of: Log.Level.allCases.map(\.name)) ?? "info"
      let configuration = try ServerConfiguration(settings)
      exit(ServerProcess(configuration, log: Log(level: Log.Level(name: level) ?? .info)).run())
    } catch {
      Terminal.fail("simp-server", "\(error)\nsimp-server --help lists the flags", code: ExitCode.usage)
    }
  }

  static var help: String {
    let topics = ServerConfiguration.topics.map(\.name).joined(separator: ", ")
    return """
      simp-server: relays messages between users, by UDP with TCP behind it.

      usage: simp-server [flags]
             simp-server genkey [flags]     makes a key for tokens; genkey --help says more
             simp-server help TOPIC         more flags, about: \(topics)

      \(ArgumentReader(flags: ServerConfiguration.commonFlags).help)
      Each setting may also stand in the configuration file (port 7467) and in the environment (SIMP_PORT=7467).
      Prints one line with the word ready when it serves. SIGHUP: reads certificate and keys again. SIGTERM, SIGINT: exits 0.
      """
  }

  /// The text of `simp-server help TOPIC`.
  static func topic(_ words: ArraySlice<String>) throws(UsageError) -> String {
    guard let word = words.first else { return help }
    guard let topic = ServerConfiguration.topics.first(where: { $0.name == word }) else {
      let names = ServerConfiguration.topics.map(\.name).joined(separator: ", ")
      throw UsageError("there is no help about \(quoted(word)), but about: \(names)")
    }
    return ArgumentReader(flags: topic.flags).help
  }
}
