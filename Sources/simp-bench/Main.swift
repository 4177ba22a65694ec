import Glibc
import SimpBench
import SimpSupport

@main
struct Main {
  static func main() async {
    Terminal.ignoreBrokenPipes()
    exit(await BenchProgram.program.run(Array(CommandLine.arguments.dropFirst())))
  }
}
