import Glibc
import SimpSupport
import SimpTool

@main
struct Main {
  static func main() async {
    Terminal.ignoreBrokenPipes()
    exit(await SimpProgram.program.run(Array(CommandLine.arguments.dropFirst())))
  }
}
