/// What a run of `verify` does to the programs and the network it watches.
enum FaultKind: String, Hashable, Sendable, CaseIterable {
  case serverKill = "server-kill"
  case serverStop = "server-stop"
  case redisKill = "redis-kill"
  case redisStop = "redis-stop"
  case udpBlackhole = "udp-blackhole"
  case tcpCut = "tcp-cut"
  case rebind = "nat-rebind"
  case impair = "impair"
  case clientKill = "client-kill"
  case clockStep = "clock-step"

  /// For the help: what is done each time.
  var help: String {
    switch self {
    case .serverKill: "kill -9 of the server, started again within 2 s"
    case .serverStop: "SIGSTOP of the server for up to 4 s"
    case .redisKill: "kill -9 of its Redis, which the server starts again"
    case .redisStop: "SIGSTOP of its Redis for up to 4 s"
    case .udpBlackhole: "no datagram passes for up to 8 s"
    case .tcpCut: "some or all TCP connections break"
    case .rebind: "some or all UDP flows get another address"
    case .impair: "datagrams are lost, held up, doubled, out of order for up to 10 s"
    case .clientKill: "kill -9 of a process of clients with stored outboxes, started again"
    case .clockStep: "the wall clocks of server, Redis and client processes jump"
    }
  }

  /// The mean time from one to the next with `--chaos`, in seconds.
  var chaosPeriod: Int {
    switch self {
    case .serverKill, .serverStop, .clockStep: 30
    case .redisKill, .redisStop: 40
    case .udpBlackhole, .impair: 20
    case .tcpCut, .rebind: 10
    case .clientKill: 8
    }
  }

  /// The ones that need the private server's process, or a network of our own before it.
  var needsPrivateServer: Bool { self != .clientKill }
  var needsClients: Bool { self == .clientKill }
  var needsRelay: Bool { [.udpBlackhole, .tcpCut, .rebind, .impair].contains(self) }
}
