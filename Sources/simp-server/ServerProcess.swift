import Glibc
import SimpCore
import SimpIO
import SimpServer
import SimpSupport

/// The server as a process: signals, the ready line, exit status.
final class ServerProcess {
  private let configuration: ServerConfiguration
  private let log: Log
  private let manager = ServiceManager(environment: Settings.processEnvironment)

  init(_ configuration: ServerConfiguration, log: Log) {
    self.configuration = configuration
    self.log = log
  }

  /// Runs until a signal, or until the start failed.
  ///
  /// - Returns: the exit status.
  func run() -> Int32 {
    do throws(IOError) {
      return try serve()
    } catch {
      return fail("\(error)")
    }
  }

  private func serve() throws(IOError) -> Int32 {
    let loop = try EventLoop()
    let server = Server(configuration, control: loop, log: log)
    var status = ExitCode.ok
    var stoppingSince: Instant?
    let signals = try SignalSource(loop: loop, signals: [SIGTERM, SIGINT]) { [log, manager] signal in
      if let since = stoppingSince {
        // One stop often arrives twice: from a terminal's process group, or from a wrapper that passes signals on.
        guard loop.now - since > .seconds(1) else { return }
        log.warn("stopped at once by a second signal", ["signal": signal])
        exit(ExitCode.failed)
      }
      stoppingSince = loop.now
      log.info("stopping", ["signal": signal])
      manager?.tell(.stopping)
      server.stop { loop.stop() }
    }
    let hangUps = try SignalSource(loop: loop, signals: [SIGHUP]) { [self] _ in
      manager?.tell(.reloading(since: loop.now))
      reload(server)
      manager?.tell(.ready)
    }
    let watchdog = startWatchdog(on: loop, of: server)
    server.start { [self] result in
      switch result {
      case .success(let ready):
        announce(ready)
        manager?.tell(.ready)
      case .failure(let error):
        status = fail("\(error)")
        stoppingSince = loop.now
        server.stop { loop.stop() }
      }
    }
    loop.run()
    signals.close()
    hangUps.close()
    watchdog?.close()
    loop.close()
    if status == ExitCode.ok { log.info("stopped") }
    return status
  }

  /// Says that the server is alive as long as every reactor answers: a third of the time that the service manager waits
  /// passes between two questions.
  private func startWatchdog(on loop: EventLoop, of server: Server) -> LoopTimer? {
    guard let manager, let patience = manager.watchdog else { return nil }
    var again: (() -> Void)?
    let timer = loop.makeTimer {
      server.checkReactors { manager.tell(.alive) }
      again?()
    }
    again = { [unowned timer] in timer.arm(at: loop.now + patience / 3) }
    timer.arm(at: loop.now)
    return timer
  }

  private func announce(_ ready: Server.Ready) {
    let reach =
      configuration.listen.isLoopback
      ? "this machine only (--listen says otherwise)"
      : "other machines too" + (configuration.tls == .off ? ", IN CLEAR TEXT (--insecure)" : "")
    if let certificate = ready.certificate {
      if certificate.isNew { log.info("certificate made", ["path": certificate.path, "pin": certificate.facts.pin]) }
      tell(certificate.facts, isReloaded: false)
    } else {
      log.warn("the control channel is clear text: tokens and keys can be read on the way")
    }
    if ready.keys.isNew { log.info("signing key made", ["path": ready.keys.path]) }
    tell(ready.keys, isReloaded: false)
    let redis =
      switch configuration.redis {
      case .embedded: "embedded"
      case .external(let place): place
      }
    let line =
      "simp-server ready: TCP \(ready.tcp), UDP \(ready.udp), \(ready.certificate == nil ? "TLS off" : "TLS 1.3"), redis \(redis), node \(ready.node), for \(reach)"
    do throws(OutputWriter.Failure) {
      try OutputWriter.standardOutput.line(line)
    } catch {
      log.warn("the ready line could not be printed", ["reason": error])
    }
  }

  /// One that is not good does not keep the other from being read.
  private func reload(_ server: Server) {
    do throws(ServerError) {
      if let facts = try server.reloadCertificate() { tell(facts, isReloaded: true) }
    } catch {
      log.error("certificate not reloaded: what was in force stays", ["reason": error])
    }
    do throws(ServerError) {
      if let keys = try server.reloadKeys() { tell(keys, isReloaded: true) }
    } catch {
      log.error("token keys not reloaded: those in force stay", ["reason": error])
    }
  }

  /// Logs whose tokens are taken.
  private func tell(_ keys: Server.Keys, isReloaded: Bool) {
    let fields: Log.Fields = ["path": keys.path, "keys": keys.names.joined(separator: ", ")]
    if isReloaded { log.info("token keys reloaded", fields) } else { log.info("token keys", fields) }
    for reason in keys.passedOver { log.warn("a key was passed over", ["reason": reason]) }
  }

  /// Logs what clients are shown, and when it has to be renewed.
  private func tell(_ facts: CertificateFacts, isReloaded: Bool) {
    let day = CertificateFacts.day(facts.notAfter)
    let fields: Log.Fields = [
      "pin": facts.pin, "names": facts.names, "expires": day,
    ]
    if isReloaded { log.info("certificate reloaded", fields) } else { log.info("certificate", fields) }
    let left = facts.notAfter - Int64(EventLoop.wallClockSeconds)
    if left < 30 * 86_400 { log.warn("the certificate has to be renewed", ["expires": day]) }
  }

  private func fail(_ text: String) -> Int32 {
    Terminal.say("simp-server: \(text)")
    return ExitCode.failed
  }
}
