internal import CSimpLinux
internal import Glibc
public import SimpCore

/// The one that started this process as a service and wants to know how it is (sd_notify(3)). For executables only.
public struct ServiceManager: Sendable {
  /// What a service says of itself.
  public enum State: Sendable {
    case ready
    /// Reads its configuration again, since this moment of the monotonic clock; `ready` follows.
    case reloading(since: Instant)
    case stopping
    /// Still answers.
    case alive
    /// A sentence for people, one line.
    case status(String)
  }

  private let socket: String
  /// `alive` has to be said at least this often; nil: nobody waits for it.
  public let watchdog: Interval?

  /// nil when no service manager listens: NOTIFY_SOCKET is not set.
  ///
  /// - Parameter environment: gives the value of a variable of this process.
  public init?(environment: (String) -> String?) {
    guard let socket = environment("NOTIFY_SOCKET"), socket.hasPrefix("/") || socket.hasPrefix("@") else { return nil }
    self.socket = socket
    // Meant for another process, if its number stands there.
    let isMeant = environment("WATCHDOG_PID").map { $0 == "\(getpid())" } ?? true
    let microseconds = environment("WATCHDOG_USEC").flatMap { Int64($0) } ?? 0
    watchdog = isMeant && microseconds > 0 && microseconds <= 86_400_000_000 ? .microseconds(microseconds) : nil
  }

  /// - Returns: false when nobody listens there any more, or the socket is full.
  @discardableResult
  public func tell(_ state: State) -> Bool {
    let text =
      switch state {
      case .ready: "READY=1"
      case .reloading(let since): "RELOADING=1\nMONOTONIC_USEC=\(since.nanoseconds / 1000)"
      case .stopping: "STOPPING=1"
      case .alive: "WATCHDOG=1"
      case .status(let text): "STATUS=" + text.split(whereSeparator: \.isNewline).joined(separator: " ")
      }
    return unsafe simp_tell_service_manager(socket, text) == 0
  }
}
