import ProgramRig
import SimpAccess
import SimpSupport
import Testing

@Suite struct TrustTests {
  private func trust(
    _ arguments: [String], _ environment: [String: String] = [:], server: String = "127.0.0.1:7467", key: String? = nil
  ) throws -> TrustSettings {
    let settings = try Settings(
      flags: TrustSettings.flags, arguments: ArgumentReader(flags: TrustSettings.flags).read(arguments),
      environment: { environment[$0] })
    return try TrustSettings(settings, server: server, keyPath: key)
  }

  @Test func whatIsSaidCounts() throws {
    #expect(try trust([]) == .system)
    #expect(try trust(["--pin", "sha256:a"]) == .pin("sha256:a"))
    #expect(try trust(["--ca", "ca.pem"]) == .authority("ca.pem"))
    #expect(try trust(["--tls", "off"]) == .off(evenBeyondLoopback: false))
    #expect(try trust(["--tls=off", "--insecure"]) == .off(evenBeyondLoopback: true))
    #expect(try trust(["--insecure"]) == .system)
    #expect(try trust([], ["SIMP_PIN": "sha256:b"]) == .pin("sha256:b"))
    #expect(try trust([], ["SIMP_CA": "ca.pem"]) == .authority("ca.pem"))
    #expect(try trust([], ["SIMP_TLS": "off"]) == .off(evenBeyondLoopback: false))
  }

  @Test func aFlagGoesBeforeAVariable() throws {
    #expect(try trust(["--ca", "ca.pem"], ["SIMP_PIN": "sha256:b"]) == .authority("ca.pem"))
    #expect(try trust(["--pin", "sha256:a"], ["SIMP_CA": "ca.pem"]) == .pin("sha256:a"))
    #expect(try trust([], ["SIMP_PIN": "sha256:b", "SIMP_CA": "ca.pem"]) == .pin("sha256:b"))
    #expect(try trust(["--tls", "off"], ["SIMP_PIN": "sha256:b"]) == .off(evenBeyondLoopback: false))
    #expect(try trust(["--pin", "sha256:a"], ["SIMP_TLS": "off"]) == .pin("sha256:a"))
    #expect(try trust(["--tls", "on"], ["SIMP_TLS": "off"]) == .system)
  }

  @Test func contradictionsAreTold() {
    #expect(throws: UsageError.self) { try trust(["--pin", "sha256:a", "--ca", "ca.pem"]) }
    #expect(throws: UsageError.self) { try trust(["--tls", "off", "--pin", "sha256:a"]) }
    #expect(throws: UsageError.self) { try trust(["--tls", "off", "--ca", "ca.pem"]) }
    #expect(throws: UsageError.self) { try trust(["--tls", "maybe"]) }
  }

  @Test func aServerOnThisMachineIsKnownByTheFileBesideItsKey() throws {
    let directory = try TestDirectory()
    let key = directory.path + "/signing.key"
    #expect(try trust([], key: key) == .system, "there is no such file yet")
    try TestDirectory.write("  sha256:c \n", to: directory.path + "/server.pin")
    for server in ["127.0.0.1:7467", "127.0.0.1", "127.1.2.3:1", "localhost", "localhost:1", "[::1]", "[::1]:1", "::1"]
    {
      #expect(try trust([], server: server, key: key) == .pin("sha256:c"), "\(server)")
    }
    for server in [
      "127.0.0.1.example.org", "im.example.org:7467", "128.0.0.1", "[::2]:1", "127.0.0", "localhost.example",
    ] {
      #expect(try trust([], server: server, key: key) == .system, "\(server)")
    }
    #expect(try trust(["--pin", "sha256:a"], key: key) == .pin("sha256:a"))
    try TestDirectory.write("\n", to: directory.path + "/server.pin")
    #expect(try trust([], key: key) == .system)
  }
}
