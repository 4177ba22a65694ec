internal import Glibc
internal import SimpConnection
internal import SimpIO
internal import SimpSupport

/// The frame around a run: brings up the server if it is a private one, stops at a signal, cleans up.
enum BenchSession {
  /// - Parameters:
  ///   - body: its result is the exit status. It is cancelled by a signal, and then reports what it has.
  ///   - options: of a private server; whether it is encrypted is said by `target`.
  static func run(
    _ target: Target, options: PrivateServer.Options = .init(),
    _ body: @escaping @Sendable (Place) async throws -> Int32
  ) async -> Int32 {
    do throws(IOError) {
      let interrupts = try Interrupts { PrivateServer.abandonAll() }
      let (status, signal) = await interrupts.watch { await onTarget(target, options, body) }
      return signal.map { 128 + $0 } ?? status
    } catch {
      return fail("\(error)")
    }
  }

  private static func onTarget(
    _ target: Target, _ options: PrivateServer.Options, _ body: (Place) async throws -> Int32
  ) async -> Int32 {
    switch target {
    case .running(let address, let key, let trust):
      return await attempt { try await body(Place(address: address, key: key, trust: trust, pid: nil)) }
    case .privateServer(let isEncrypted):
      return await attempt {
        var options = options
        options.isEncrypted = isEncrypted
        let server = try await PrivateServer.start(options)
        let status = await attempt { try await body(server.place) }
        await server.stop()
        return status
      }
    }
  }

  private static func attempt(_ body: () async throws -> Int32) async -> Int32 {
    do {
      return try await body()
    } catch is CancellationError {
      return ExitCode.failed
    } catch let error as SIMPError {
      return fail(printable(error.message), code: error.benchExitCode)
    } catch {
      return fail("\(error)")
    }
  }

  private static func fail(_ text: String, code: Int32 = ExitCode.failed) -> Int32 {
    Terminal.say("simp-bench: \(text)")
    return code
  }
}

extension SIMPError {
  fileprivate var benchExitCode: Int32 {
    switch code {
    case .connectFailed, .connectionLost, .unavailable, .timedOut, .untrusted, .tlsFailed: ExitCode.cannotConnect
    case .refused, .tokenInvalid, .tokenExpired, .replaced: ExitCode.loginRefused
    case .invalidAddress, .invalidTrust: ExitCode.usage
    default: ExitCode.failed
    }
  }
}
