import Glibc

/// What programs need to know of the terminal and of pipes.
public enum Terminal {
  public static var standardInputIsTerminal: Bool { isatty(0) == 1 }
  public static var standardOutputIsTerminal: Bool { isatty(1) == 1 }
  public static var standardErrorIsTerminal: Bool { isatty(2) == 1 }

  /// Makes a write to a pipe that nobody reads an error instead of the end of the program. Executables call it first;
  /// libraries never do.
  public static func ignoreBrokenPipes() {
    signal(SIGPIPE, SIG_IGN)
  }

  /// Prints `text` and a newline to standard error; what a program has to say beside its output.
  public static func say(_ text: String) { Log.standardError(text + "\n") }

  /// Prints `program: message` to standard error and ends the process.
  public static func fail(_ program: String, _ message: String, code: Int32 = ExitCode.failed) -> Never {
    say("\(program): \(message)")
    exit(code)
  }
}
