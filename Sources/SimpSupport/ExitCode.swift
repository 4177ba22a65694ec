/// What the programs of the project end with. Scripts rely on the numbers; they never change meaning.
public enum ExitCode {
  /// All that was asked for was done.
  public static let ok: Int32 = 0
  /// Something failed that has no number of its own; standard error says what.
  public static let failed: Int32 = 1
  /// The command line, an environment variable or the configuration file is wrong.
  public static let usage: Int32 = 2
  /// No connection to the server, or none to Redis.
  public static let cannotConnect: Int32 = 3
  /// The server refused the login: token wrong, expired, or replaced by another login.
  public static let loginRefused: Int32 = 4
  /// The time given by `--timeout` ran out.
  public static let timedOut: Int32 = 5
  /// At least one message has no final good receipt, or a measuring run lost, doubled or misordered one.
  public static let notDelivered: Int32 = 6
}
