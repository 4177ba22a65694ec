import Glibc
import ProgramRig
import SimpConnection
import SimpCore
import SimpIO
import SimpSupport
import SimpToken
import Testing

@testable import SimpServer

/// A real server inside the test's process, with its embedded Redis in a directory of its own.
final class SDKServer: Sendable {
  let directory: SDKDirectory
  let key: TokenKey
  let port: UInt16
  /// nil with TLS off.
  let pin: String?
  private let control: EventLoop
  private let server: Locked<Server?>

  private init(directory: SDKDirectory, key: TokenKey, ready: Server.Ready, control: EventLoop, server: Server) {
    self.directory = directory
    self.key = key
    port = ready.tcp.port
    pin = ready.certificate.map { "\($0.facts.pin)" }
    self.control = control
    self.server = Locked(server)
  }

  /// Starts one; again in the same directory and on the same port, it is the same server come back.
  static func start(
    in directory: SDKDirectory? = nil, port: UInt16 = 0, listen: PeerAddress = .loopback(port: 0),
    tls: ServerConfiguration.TLS = .own, limits: ServerLimits = ServerLimits(),
    _ configure: (inout ServerConfiguration) -> Void = { _ in }
  ) async throws -> SDKServer {
    let directory = try directory ?? SDKDirectory()
    var configuration = ServerConfiguration()
    configuration.listen = listen
    configuration.port = port == 0 ? FreePort.tcp() : port
    configuration.udpPort = 0
    configuration.tls = tls
    configuration.limits = limits
    configuration.stateDirectory = directory.path
    configure(&configuration)
    let control = try EventLoop()
    let server = Server(configuration, control: control, log: .silent)
    control.startThread(name: "test-control")
    let ready = await withCheckedContinuation { continuation in
      control.execute { server.start { continuation.resume(returning: $0) } }
    }
    do {
      let ready = try ready.get()
      let key = try TokenKey.load(path: ready.keys.path)
      return SDKServer(directory: directory, key: key, ready: ready, control: control, server: server)
    } catch {
      control.close()
      throw error
    }
  }

  var address: String { "127.0.0.1:\(port)" }

  /// - Parameter age: seconds since it was made; it is good for 600.
  func token(_ user: String, age: UInt64 = 0) throws -> String {
    try Tokens.mint(user: user, key: key, ttlSeconds: 600, now: EventLoop.wallClockSeconds - age)
  }

  /// What trusts this server.
  var trusting: SIMPConnection.Configuration {
    var configuration = SIMPConnection.Configuration()
    configuration.tls = pin.map { .pinned($0) } ?? .off()
    // A machine that does much besides, and a sanitizer, take their time.
    configuration.connectTimeout = .seconds(60)
    configuration.attemptTimeout = .seconds(30)
    return configuration
  }

  /// A connection of this user, not started.
  func connection(
    _ user: String, _ configure: (inout SIMPConnection.Configuration) -> Void = { _ in }
  ) throws -> SIMPConnection { try connection(token: token(user), configure) }

  /// A connection with this token, not started.
  func connection(
    token: String, to address: String? = nil, _ configure: (inout SIMPConnection.Configuration) -> Void = { _ in }
  ) throws -> SIMPConnection {
    var configuration = trusting
    configure(&configuration)
    return try SIMPConnection(to: address ?? self.address, token: token, configuration: configuration)
  }

  /// Asks every reactor for a sign of life.
  func checkReactors(completion: @escaping @Sendable () -> Void) {
    let server = server.withLock { $0 }
    control.execute { server?.checkReactors(completion: completion) }
  }

  /// Runs on the control loop.
  func onControl(_ body: @escaping @Sendable () -> Void) { control.execute(body) }

  /// Runs on the first reactor.
  func onReactor(_ body: @escaping @Sendable () -> Void) {
    let server = server.withLock { $0 }
    control.execute { server?.reactors.first?.perform { _ in body() } }
  }

  /// Runs on the thread that takes connections.
  func onAcceptor(_ body: @escaping @Sendable () -> Void) {
    let server = server.withLock { $0 }
    control.execute { server?.acceptor?.perform { _ in body() } }
  }

  /// Stops as for SIGTERM.
  func stop() async {
    let server = server.withLock { server in
      defer { server = nil }
      return server
    }
    guard let server else { return }
    await withCheckedContinuation { continuation in
      control.execute { server.stop { continuation.resume() } }
    }
    control.close()
  }
}

/// Runs `body` with a server of its own.
///
/// - Parameter keepsInboxes: false: what is for somebody away is answered LATER.
func withSDKServer<Value>(
  keepsInboxes: Bool = true, _ body: (SDKServer) async throws -> Value
) async throws -> Value {
  var limits = ServerLimits()
  if !keepsInboxes { limits.inboxMessages = 0 }
  let server = try await SDKServer.start(limits: limits)
  do {
    let value = try await body(server)
    await server.stop()
    return value
  } catch {
    await server.stop()
    throw error
  }
}

/// A directory that goes, with all that is in it, when nobody needs it.
final class SDKDirectory: Sendable {
  let path: String

  init() throws {
    // SAFETY: the environment is not changed by tests.
    let parent = unsafe getenv("TMPDIR").map { unsafe String(cString: $0) } ?? "/tmp"
    var template = Array("\(parent)/simp-sdk-XXXXXX".utf8CString)
    let isMade = unsafe template.withUnsafeMutableBufferPointer { unsafe mkdtemp($0.baseAddress!) != nil }
    try #require(isMade)
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit { Self.removeAll(path) }

  private static func removeAll(_ path: String) {
    // SAFETY: the directory stream is closed when it has been read; entries are copied before the next read.
    if let stream = unsafe opendir(path) {
      var names: [String] = []
      while let entry = unsafe readdir(stream) {
        let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { name in
          unsafe name.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
        }
        if name != "." && name != ".." { names.append(name) }
      }
      unsafe closedir(stream)
      for name in names { removeAll("\(path)/\(name)") }
    }
    unsafe remove(path)
  }
}
