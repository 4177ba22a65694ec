import Glibc
import SimpIO
import Testing

/// A client's and a server's end of TLS, with nothing in between but what the test does to the bytes.
final class TLSPair {
  let client: TLSPipe
  let server: TLSPipe
  var toServer: [UInt8] = []
  var toClient: [UInt8] = []
  /// What came out at each end.
  var atServer: [UInt8] = []
  var atClient: [UInt8] = []
  /// How each end failed.
  var clientError: PipeError?
  var serverError: PipeError?

  init(_ client: TLSPipe, _ server: TLSPipe) {
    self.client = client
    self.server = server
  }

  var isReady: Bool { client.isReady && server.isReady }

  /// Carries bytes until nothing is under way, `step` at a time.
  func carry(step: Int = .max) {
    while !toServer.isEmpty || !toClient.isEmpty {
      if !toServer.isEmpty { serverTakes(Self.cut(&toServer, step)) }
      if !toClient.isEmpty { clientTakes(Self.cut(&toClient, step)) }
    }
  }

  @discardableResult
  func shakeHands(step: Int = .max) -> TLSPair {
    do throws(PipeError) {
      try server.start(wire: &toClient)
      try client.start(wire: &toServer)
    } catch {
      clientError = error
    }
    carry(step: step)
    return self
  }

  func serverTakes(_ bytes: [UInt8]) {
    guard serverError == nil else { return }
    do throws(PipeError) {
      try server.receive(bytes.span, plain: &atServer, reply: &toClient)
    } catch {
      serverError = error
    }
  }

  func clientTakes(_ bytes: [UInt8]) {
    guard clientError == nil else { return }
    do throws(PipeError) {
      try client.receive(bytes.span, plain: &atClient, reply: &toServer)
    } catch {
      clientError = error
    }
  }

  func clientSends(_ bytes: [UInt8]) throws { try client.send(bytes.span, wire: &toServer) }
  func serverSends(_ bytes: [UInt8]) throws { try server.send(bytes.span, wire: &toClient) }

  private static func cut(_ bytes: inout [UInt8], _ step: Int) -> [UInt8] {
    let part = Array(bytes.prefix(step))
    bytes.removeFirst(part.count)
    return part
  }
}

/// A server's certificate and key in files, and a context of them.
struct TLSIdentity {
  let directory: TLSDirectory
  let context: TLSServerContext

  static let day: Int64 = 86_400

  /// Times in days from now.
  init(names: [String] = ["localhost"], fromDay: Int64 = -1, toDay: Int64 = 1) throws {
    directory = try TLSDirectory()
    try directory.makeCertificate(names: names, fromDay: fromDay, toDay: toDay)
    context = try TLSServerContext(certificateFile: directory.certificate, keyFile: directory.key)
  }

  var pin: PublicKeyPin { context.facts.pin }

  /// A client that trusts this server's certificate.
  func trusting() throws -> TLSClientContext { try TLSClientContext(.authorities(file: directory.certificate)) }

  func pair(_ client: TLSClientContext, host: String = "localhost", port: UInt16 = 1) throws -> TLSPair {
    TLSPair(try client.makePipe(to: host, port: port), context.makePipe())
  }
}

/// A directory for certificates that goes with this object.
final class TLSDirectory {
  let path: String

  init() throws {
    var template = Array("/tmp/simp-tls-XXXXXX".utf8CString)
    let isMade = unsafe template.withUnsafeMutableBufferPointer { unsafe mkdtemp($0.baseAddress!) != nil }
    try #require(isMade)
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit {
    for name in ["server.crt", "server.key", "ca.crt", "ca.key", "ca.srl", "leaf.csr", "extensions", "other"] {
      unsafe unlink(path + "/" + name)
    }
    unsafe rmdir(path)
  }

  var certificate: String { path + "/server.crt" }
  var key: String { path + "/server.key" }

  /// Writes a certificate signed by its own key, and the key unless it is there.
  func makeCertificate(names: [String], fromDay: Int64 = -1, toDay: Int64 = 1) throws {
    let now = Int64(EventLoop.wallClockSeconds)
    let key = SelfSignedCertificate.makeKey()
    try write("server.key", key, mode: 0o600)
    try write(
      "server.crt",
      SelfSignedCertificate.make(
        key: key, names: names, notBefore: now + fromDay * TLSIdentity.day, notAfter: now + toDay * TLSIdentity.day))
  }

  func write(_ name: String, _ contents: [UInt8], mode: mode_t = 0o644) throws {
    let descriptor = unsafe open("\(path)/\(name)", O_WRONLY | O_CREAT | O_TRUNC, mode)
    try #require(descriptor >= 0)
    defer { close(descriptor) }
    fchmod(descriptor, mode)
    let written = unsafe Glibc.write(descriptor, contents, contents.count)
    try #require(written == contents.count)
  }

  /// Runs a shell script in the directory.
  func run(_ script: String) throws {
    var status: ChildProcess.Status?
    try withLoop { loop in
      _ = try ChildProcess(
        loop: loop, program: "sh", arguments: ["-ec", script], directory: path, output: .file("\(path)/other")
      ) { ended in
        status = ended
        loop.stop()
      }
    }
    let said = try readFile("\(path)/other")
    #expect(status == .init(code: 0), "\(said)")
  }

  /// A certificate for localhost from an authority of its own, `ca.crt`.
  func makeIssuedCertificate() throws {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    try run(
      """
      openssl req -x509 \(key) -keyout ca.key -out ca.crt -subj '/CN=Authority of a test' -days 2
      openssl req \(key) -keyout server.key -out leaf.csr -subj /CN=localhost
      echo subjectAltName=DNS:localhost > extensions
      openssl x509 -req -in leaf.csr -CA ca.crt -CAkey ca.key -CAcreateserial -extfile extensions -days 2 -out server.crt
      chmod 600 server.key
      """)
  }
}
