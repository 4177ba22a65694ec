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
      let arguments = try reader.read(CommandLine.arguments.dropFirst())
      if arguments.has("help") { return print(help(reader)) }
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

  static func help(_ reader: ArgumentReader) -> String {
    """
    simp-server: relays messages between users, by UDP with TCP behind it.

    usage: simp-server [flags]

    \(reader.help)
    Each setting may also stand in the configuration file (port 7467) and in the environment (SIMP_PORT=7467).
    Prints one line with the word ready when it serves. SIGHUP: reads certificate and key again. SIGTERM or SIGINT:
    tells clients, flushes, exits 0.
    """
  }
}
