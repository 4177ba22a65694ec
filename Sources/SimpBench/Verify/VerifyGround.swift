internal import Glibc
internal import SimpAccess
internal import SimpCore
internal import SimpIO
internal import SimpSupport

/// What a run stands on: a directory for stores and clients, ports, the relay before the server, false clocks.
struct VerifyGround: Sendable {
  let directory: String
  let clock: FalseClock?
  private let keyPath: String?
  /// The same at each start of the server; 0 where it is never started anew.
  private let ports: (tcp: UInt16, udp: UInt16)
  private let hasRelay: Bool

  /// The server is at 127.0.0.1, the relay has the same ports here: the UDP port is told to clients inside TLS.
  private static let server = PeerAddress.v4(127, 0, 0, 1, port: 0)
  private static let relay = PeerAddress.v4(127, 0, 0, 2, port: 0)

  /// - Parameter keyPath: of a running server.
  static func make(_ plan: VerifyPlan, keyPath: String?) throws -> VerifyGround {
    let directory = try PrivateServer.makeDirectory()
    var clock: FalseClock?
    if plan.faults[.clockStep] != nil {
      let made = FalseClock(path: "\(directory)/clock")
      try made.set(offset: 0)
      clock = made
    }
    let isFixed = plan.faults.keys.contains(where: \.needsPrivateServer)
    return VerifyGround(
      directory: directory, clock: clock, keyPath: keyPath,
      ports: isFixed ? (freePort(StreamListener.checkFree), freePort(DatagramSocket.checkFree)) : (0, 0),
      hasRelay: plan.faults.keys.contains(where: \.needsRelay))
  }

  /// One that nobody has at either address, below those that the system gives out by itself: nobody gets it while the
  /// server is away.
  private static func freePort(_ check: (PeerAddress) throws(IOError) -> Void) -> UInt16 {
    while true {
      let port = UInt16(10_000 + RandomBytes.uint64() % 22_000)
      var places = [server, relay]
      for index in places.indices { places[index].port = port }
      if places.allSatisfy({ (try? check($0)) != nil }) { return port }
    }
  }

  func options(_ plan: VerifyPlan) -> PrivateServer.Options {
    var options = PrivateServer.Options()
    options.ports = ports
    options.environment = clock?.environment ?? []
    options.logs = plan.logs
    if plan.logs != nil { options.logLevel = "info" }
    return options
  }

  var relayAddress: String { "127.0.0.2:\(ports.tcp)" }

  func startRelay(on loop: EventLoop, seed: UInt64) async throws -> Relay? {
    guard hasRelay else { return nil }
    func at(_ address: PeerAddress, _ port: UInt16) -> PeerAddress {
      var address = address
      address.port = port
      return address
    }
    return try await Relay.start(
      on: loop, tcp: (at(Self.relay, ports.tcp), at(Self.server, ports.tcp)),
      udp: (at(Self.relay, ports.udp), at(Self.server, ports.udp)), seed: seed)
  }

  func keyPath(_ place: Place) -> String { keyPath ?? "\(place.server?.directory ?? "")/state/signing.key" }

  /// Makes an empty file that tells the processes of clients how far the run is.
  func tell(_ word: String) { _ = try? HistoryFile(path: "\(directory)/\(word)", isNew: false) }

  /// Removes the directory with its files.
  func remove() {
    // SAFETY: paths are C strings for the length of a call.
    for name in ProcessUsage.names(in: directory) { unsafe unlink("\(directory)/\(name)") }
    unsafe rmdir(directory)
  }
}

extension TrustSettings {
  /// The flags that say the same.
  var arguments: [String] {
    switch self {
    case .system: []
    case .authority(let path): ["--ca", path]
    case .pin(let pin): ["--pin", pin]
    case .off(let evenBeyondLoopback): ["--tls", "off"] + (evenBeyondLoopback ? ["--insecure"] : [])
    }
  }
}
