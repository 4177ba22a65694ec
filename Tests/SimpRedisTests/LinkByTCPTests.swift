import ProgramRig
import SimpCore
import SimpIO
import Testing

@testable import SimpRedis

@Suite(.serialized) struct LinkByTCPTests {
  /// A refused connection comes as an error of the socket, which must reach both hiredis handlers.
  @Test func aRefusedConnectionIsTriedAgain() async throws {
    let rig = try RedisRig(address: .tcp(host: "127.0.0.1", port: FreePort.tcp()))
    await rig.run { rig in
      rig.values["failures"] = 0
      rig.link.onAttemptFailed = { error in
        rig.values["failures"] = (rig.values["failures"] as? Int ?? 0) + (error.code == .cannotConnect ? 1 : 0)
      }
      rig.link.start()
    }
    try await rig.until { ($0.values["failures"] as? Int ?? 0) >= 3 }
    await rig.close()
  }

  static let logins: [(user: String?, password: String?, refusal: String?)] = [
    (nil, "secret", nil), ("default", "secret", nil), (nil, "wrong", "Redis refused the login: WRONGPASS"),
    (nil, nil, "Redis wants a password"),
  ]

  @Test(arguments: logins)
  func passwords(user: String?, password: String?, refusal: String?) async throws {
    let port = FreePort.tcp()
    let redis = try TestRedis(options: ["--port", "\(port)", "--bind", "127.0.0.1", "--requirepass", "secret"])
    let rig = try RedisRig(address: .tcp(host: "localhost", port: port, user: user, password: password))
    await rig.run { rig in
      rig.link.onAttemptFailed = { error in if error.code == .refused { rig.values["refused"] = error.description } }
      rig.link.start()
    }
    if let refusal {
      try await rig.until { ($0.values["refused"] as? String ?? "").hasPrefix(refusal) }
      #expect(await rig.run { !$0.link.isUp })
    } else {
      try await rig.until { $0.link.isUp }
      #expect(try await rig.command(["PING"]) == .status("PONG"))
    }
    await rig.close()
    withExtendedLifetime(redis) {}
  }

  @Test func aNameWithoutAnAddress() async throws {
    let rig = try RedisRig(address: .tcp(host: "nothing.invalid", port: 6379))
    await rig.run { rig in
      rig.link.onAttemptFailed = { error in rig.values["code"] = error.code }
      rig.link.start()
    }
    try await rig.until { $0.values["code"] as? RedisError.Code == .cannotConnect }
    await rig.close()
  }

  @Test(arguments: ["HTTP/1.1 400 Bad Request\r\n\r\n", "+HELLO\r\n", "*3\r\n"])
  func whatIsNoRedis(greeting: String) async throws {
    let rig = try RedisRig(address: .unix(path: "unused"))
    let port: UInt16 = await rig.run { rig in
      let listener = try? StreamListener(
        loop: rig.loop, address: .v4(127, 0, 0, 1, port: 0), reusePort: false, backlog: 4
      ) { stream, _ in
        rig.values["stream"] = stream
        stream.write(Array(greeting.utf8))
        stream.closeAfterFlush(deadline: .seconds(1))
      }
      rig.values["listener"] = listener
      return listener?.localAddress.port ?? 0
    }
    #expect(port != 0)
    await rig.run { rig in
      let link = RedisLink(loop: rig.loop, address: .tcp(host: "127.0.0.1", port: port))
      rig.values["link"] = link
      rig.values["failures"] = 0
      link.onUp = { rig.values["up"] = true }
      link.onAttemptFailed = { _ in rig.values["failures"] = (rig.values["failures"] as? Int ?? 0) + 1 }
      link.start()
    }
    try await rig.until { ($0.values["failures"] as? Int ?? 0) >= 2 }
    #expect(await rig.run { $0.values["up"] == nil })
    await rig.run { rig in
      (rig.values["link"] as? RedisLink)?.stop()
      rig.values = [:]
    }
    await rig.close()
  }

  @Test func aRedisThatLoadsIsAskedAgain() async throws {
    let rig = try RedisRig(address: .unix(path: "unused"))
    let port: UInt16 = await rig.run { rig in
      let listener = try? StreamListener(
        loop: rig.loop, address: .v4(127, 0, 0, 1, port: 0), reusePort: false, backlog: 4
      ) { stream, _ in
        rig.values["stream"] = stream
        rig.values["connections"] = (rig.values["connections"] as? Int ?? 0) + 1
        stream.onBytes = { _ in
          let pings = (rig.values["pings"] as? Int ?? 0) + 1
          rig.values["pings"] = pings
          stream.write(Array((pings < 3 ? "-LOADING Redis is loading\r\n" : "+PONG\r\n").utf8))
        }
      }
      rig.values["listener"] = listener
      return listener?.localAddress.port ?? 0
    }
    await rig.run { rig in
      let link = RedisLink(loop: rig.loop, address: .tcp(host: "127.0.0.1", port: port))
      rig.values["link"] = link
      link.start()
    }
    try await rig.until { ($0.values["link"] as? RedisLink)?.isUp == true }
    #expect(await rig.run { $0.values["pings"] as? Int } == 3)
    #expect(await rig.run { $0.values["connections"] as? Int } == 1)
    await rig.run { rig in
      (rig.values["link"] as? RedisLink)?.stop()
      (rig.values["stream"] as? SimpIO.Stream)?.onBytes = nil
    }
    await rig.close()
  }
}
