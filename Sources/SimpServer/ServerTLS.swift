internal import Glibc
internal import SimpCore
internal import SimpIO
internal import SimpSupport

/// The certificate a server shows, and `server.pin` in the state directory, which tells this machine's own tools its
/// pin.
final class ServerTLS: Sendable {
  let context: TLSServerContext
  let certificatePath: String
  /// The key was made just now: nobody can know its pin yet.
  let isKeyNew: Bool
  private let pinPath: String

  /// Makes a certificate in the state directory if none is there and none is named.
  ///
  /// - Throws: what is wrong with certificate or key, with the remedy.
  init?(_ configuration: ServerConfiguration, stateDirectory: String) throws(ServerError) {
    pinPath = stateDirectory + "/server.pin"
    let keyPath: String
    do throws(TLSConfigurationError) {
      switch configuration.tls {
      case .off: return nil
      case .files(let certificate, let key):
        (certificatePath, keyPath, isKeyNew) = (certificate, key, false)
      case .own:
        let own = try SelfSignedCertificate(
          directory: stateDirectory, names: Self.names(listen: configuration.listen.host),
          now: EventLoop.wallClockSeconds)
        (certificatePath, keyPath, isKeyNew) = (own.certificatePath, own.keyPath, own.isKeyNew)
      }
      context = try TLSServerContext(certificateFile: certificatePath, keyFile: keyPath)
    } catch {
      throw ServerError("\(error)")
    }
    try writePin()
  }

  /// Reads certificate and key again, for connections to come. What is in force stays if they are not good.
  func reload() throws(ServerError) {
    do throws(TLSConfigurationError) {
      try context.reload()
    } catch {
      throw ServerError("\(error)")
    }
    try writePin()
  }

  /// The host name, and the address if it is one that others can use.
  private static func names(listen: String) -> [String] {
    var names = listen == "0.0.0.0" || listen == "::" ? [] : [listen]
    var buffer = [CChar](repeating: 0, count: 256)
    // SAFETY: at most `count - 1` bytes are written, so that the last stays 0.
    if unsafe gethostname(&buffer, buffer.count - 1) == 0 {
      names.append(String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self))
    }
    return names
  }

  private func writePin() throws(ServerError) {
    try StateDirectory.write("\(context.facts.pin)", to: pinPath)
  }
}
