/// A simp-server of a test's own, on ports that were free.
public final class RunningServer: Sendable {
  public let program: RunningProgram
  public let directory: TestDirectory
  /// `127.0.0.1:PORT`.
  public let address: String

  /// - Parameters:
  ///   - port: TCP; one that is free unless one is given.
  ///   - arguments: more of them.
  public init(
    in directory: TestDirectory, port: String = "\(FreePort.tcp())", arguments: [String] = []
  ) async throws {
    self.directory = directory
    program = try await RunningProgram(
      "simp-server",
      ["--port", port, "--udp-port", "0", "--state", directory.path + "/state", "--redis", "embedded"]
        + arguments, in: directory)
    try await program.wait(for: "simp-server ready: TCP ")
    let line = program.lines.first { $0.hasPrefix("simp-server ready: TCP ") } ?? ""
    address = String(line.dropFirst("simp-server ready: TCP ".count).prefix { $0 != "," })
  }

  public var key: String { directory.path + "/state/signing.key" }

  /// What a client needs to know of this server, and who it is. By its key it finds the server's pin.
  public func environment(token: String) -> [String: String] {
    ["SIMP_SERVER": address, "SIMP_KEY": key, "SIMP_TOKEN": token]
  }

  /// Starts `simp` for `user`.
  public func simp(_ user: String, _ arguments: [String], input: String = "") async throws -> RunningProgram {
    try await RunningProgram(
      "simp", arguments, input: input, environment: environment(token: try await token(user)), in: directory)
  }

  /// A token by `simp token`.
  public func token(_ user: String, _ arguments: [String] = []) async throws -> String {
    let program = try await RunningProgram("simp", ["token", user, "--key", key] + arguments, in: directory)
    guard try await program.end() == 0, let token = program.lines.first else {
      throw RunningProgram.Trouble(description: program.errorOutput)
    }
    return token
  }

  /// Ends it with its Redis; a test that failed leaves no process behind either.
  deinit { program.terminate(seconds: 10) }

  /// Stops it and waits for its end.
  public func stop() async throws -> Int32 {
    program.signal(15)
    return try await program.end()
  }
}
