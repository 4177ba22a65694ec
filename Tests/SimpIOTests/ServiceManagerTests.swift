import Glibc
import SimpCore
import Testing

@testable import SimpIO

@Suite struct ServiceManagerTests {
  /// Where a service manager would listen.
  @safe
  private final class Listener {
    let path: String
    private let fd: Int32
    private let directory: TemporaryDirectory

    init() throws {
      directory = try TemporaryDirectory()
      path = directory.path + "/output"
      fd = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
      var address = sockaddr_un()
      address.sun_family = sa_family_t(AF_UNIX)
      unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path.utf8) }
      let status = unsafe withUnsafePointer(to: &address) {
        unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          unsafe bind(fd, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
        }
      }
      try #require(status == 0)
    }

    deinit { close(fd) }

    /// The next datagram; nil: there is none.
    func take() -> String? {
      var bytes = [UInt8](repeating: 0, count: 4096)
      let count = unsafe recv(fd, &bytes, bytes.count, Int32(MSG_DONTWAIT))
      return count < 0 ? nil : String(decoding: bytes[..<count], as: UTF8.self)
    }
  }

  private func make(_ variables: [String: String]) -> ServiceManager? { ServiceManager { variables[$0] } }

  @Test func itIsTold() throws {
    let listener = try Listener()
    let manager = try #require(make(["NOTIFY_SOCKET": listener.path]))
    #expect(manager.watchdog == nil)
    for state: ServiceManager.State in [
      .ready, .reloading(since: Instant(nanoseconds: 7_999)), .stopping, .alive, .status("two\nlines"),
    ] {
      #expect(manager.tell(state))
    }
    let told = (0..<6).map { _ in listener.take() }
    #expect(
      told == ["READY=1", "RELOADING=1\nMONOTONIC_USEC=7", "STOPPING=1", "WATCHDOG=1", "STATUS=two lines", nil])
  }

  @Test func withoutOneThereIsNobodyToTell() {
    #expect(make([:]) == nil)
    #expect(make(["NOTIFY_SOCKET": ""]) == nil)
    #expect(make(["NOTIFY_SOCKET": "relative"]) == nil)
  }

  @Test func oneThatIsGoneOrTooFarIsNoError() throws {
    for path in ["/tmp/simp-nobody-listens-here", "@simp-nobody", "/" + String(repeating: "x", count: 200)] {
      let manager = try #require(make(["NOTIFY_SOCKET": path]))
      #expect(!manager.tell(.ready))
    }
  }

  @Test func theWatchdogIsForThisProcess() {
    let base = ["NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "30000000"]
    #expect(make(base)?.watchdog == .seconds(30))
    #expect(make(base.merging(["WATCHDOG_PID": "\(getpid())"]) { $1 })?.watchdog == .seconds(30))
    #expect(make(base.merging(["WATCHDOG_PID": "1"]) { $1 })?.watchdog == nil)
    for wrong in ["0", "-5", "soon", "99999999999999"] {
      #expect(make(base.merging(["WATCHDOG_USEC": wrong]) { $1 })?.watchdog == nil)
    }
  }
}
