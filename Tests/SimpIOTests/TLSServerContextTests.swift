import Glibc
import SimpIO
import Testing

@Suite struct TLSServerContextTests {
  @Test func reconnectingResumes() throws {
    let identity = try TLSIdentity()
    let trusting = try identity.trusting()
    var resumed = 0
    for number in 0..<200 {
      let pair = try identity.pair(trusting).shakeHands()
      try #require(pair.isReady)
      if pair.client.agreement?.isResumed == true { resumed += 1 }
      #expect(pair.server.agreement?.isResumed == pair.client.agreement?.isResumed)
      // Half of them break off without a farewell.
      if number % 2 == 0 {
        pair.client.finish(wire: &pair.toServer)
        pair.carry()
      }
      try pair.serverSends([1])
    }
    #expect(resumed == 199, "all but the first")
  }

  @Test func sessionsBelongToOneServerName() throws {
    let identity = try TLSIdentity(names: ["localhost", "127.0.0.1"])
    let trusting = try identity.trusting()
    func isResumed(_ host: String, _ port: UInt16) throws -> Bool? {
      try identity.pair(trusting, host: host, port: port).shakeHands().client.agreement?.isResumed
    }
    #expect(try isResumed("localhost", 1) == false)
    #expect(try isResumed("127.0.0.1", 1) == false)
    #expect(try isResumed("localhost", 2) == false)
    #expect(try isResumed("localhost", 1) == true)
  }

  @Test func ticketsOutliveAReloadButNotTheServer() throws {
    let identity = try TLSIdentity()
    let client = try TLSClientContext(.pins([identity.pin]))
    #expect(try identity.pair(client).shakeHands().client.agreement?.isResumed == false)
    try identity.context.reload()
    #expect(try identity.pair(client).shakeHands().client.agreement?.isResumed == true)
    let restarted = try TLSServerContext(
      certificateFile: identity.directory.certificate, keyFile: identity.directory.key)
    let pair = TLSPair(try client.makePipe(to: "localhost", port: 1), restarted.makePipe()).shakeHands()
    #expect(pair.client.agreement?.isResumed == false)
  }

  @Test func aReloadShowsTheNewCertificateAndLeavesOldSessionsAlone() throws {
    let identity = try TLSIdentity()
    let before = identity.pin
    let old = try identity.pair(identity.trusting()).shakeHands()
    try identity.directory.makeCertificate(names: ["localhost", "renewed.example.org"])
    #expect(identity.pin == before)
    try identity.context.reload()
    #expect(identity.pin != before && identity.context.facts.names.contains("renewed.example.org"))
    #expect(try identity.pair(identity.trusting(), host: "renewed.example.org").shakeHands().isReady)
    #expect(try identity.pair(TLSClientContext(.pins([before]))).shakeHands().clientError?.isUntrusted == true)
    try old.clientSends([1, 2])
    try old.serverSends([3])
    old.carry()
    #expect(old.atServer == [1, 2] && old.atClient == [3])
  }

  @Test func aBadReloadChangesNothing() throws {
    let identity = try TLSIdentity()
    let before = identity.pin
    try identity.directory.write("server.crt", Array("-----BEGIN CERTIFICATE-----\nAAAA".utf8))
    #expect(throws: TLSConfigurationError.self) { try identity.context.reload() }
    #expect(identity.pin == before)
    let pair = try identity.pair(TLSClientContext(.pins([before]))).shakeHands()
    #expect(pair.isReady)
  }

  /// The reason, with the name of the file that is to blame.
  private func failure(_ directory: TLSDirectory) -> String {
    do throws(TLSConfigurationError) {
      _ = try TLSServerContext(certificateFile: directory.certificate, keyFile: directory.key)
      return "none"
    } catch {
      return error.description
    }
  }

  @Test func badFilesAreTold() throws {
    let directory = try TLSDirectory()
    #expect(failure(directory).contains("cannot read \(directory.certificate): No such file"))
    try directory.makeCertificate(names: ["localhost"])
    #expect(failure(directory) == "none")
    try directory.write("server.crt", Array("nothing".utf8))
    #expect(failure(directory).contains("server.crt holds no certificate"))
    try directory.makeCertificate(names: ["localhost"])
    let certificate = Array(try readFile(directory.certificate).utf8)
    let key = SelfSignedCertificate.makeKey()
    try directory.write("server.key", key, mode: 0o600)
    #expect(failure(directory).contains("is not the key of"))
    try directory.write("server.key", Array("nothing".utf8), mode: 0o600)
    #expect(failure(directory).contains("server.key holds no private key"))
    try directory.makeCertificate(names: ["localhost"])
    unsafe chmod(directory.key, 0o644)
    #expect(failure(directory).contains("chmod o= "))
    unsafe chmod(directory.key, 0o640)
    #expect(failure(directory) == "none")
    try directory.write("server.crt", Array(try readFile(directory.certificate).utf8) + certificate.dropLast(300))
    #expect(failure(directory).contains("after the first one is damaged"))
    try directory.run("openssl pkey -in server.key -aes128 -passout pass:x -out leaf.csr; cp leaf.csr server.key")
    try directory.makeIssuedCertificate()
    try directory.run(
      "openssl pkey -in server.key -aes128 -passout pass:x -out leaf.csr; cp leaf.csr server.key; chmod 600 server.key")
    #expect(failure(directory).contains("is encrypted"))
  }

  @Test func aServerMakesItsOwnCertificateOnce() throws {
    let directory = try TLSDirectory()
    let now = EventLoop.wallClockSeconds
    func make() throws -> SelfSignedCertificate {
      try SelfSignedCertificate(directory: directory.path, names: ["10.1.2.3", "box_1.example", "no name!"], now: now)
    }
    let first = try make()
    #expect(first.isKeyNew)
    var status = stat()
    let found = unsafe stat(first.keyPath, &status)
    try #require(found == 0)
    #expect(status.st_mode & 0o777 == 0o600)
    let facts = try #require(CertificateFacts(pem: Array(try readFile(first.certificatePath).utf8)))
    #expect(facts.names == "localhost, 127.0.0.1, ::1, 10.1.2.3, box_1.example")
    #expect(facts.notAfter - Int64(now) == 3650 * 86_400 && facts.notBefore < Int64(now))
    #expect(try !make().isKeyNew)
    #expect(CertificateFacts(pem: Array(try readFile(first.certificatePath).utf8)) == facts)
    // Removed, it is made for the same key: pins stay good.
    unsafe unlink(first.certificatePath)
    #expect(try !make().isKeyNew)
    let second = try #require(CertificateFacts(pem: Array(try readFile(first.certificatePath).utf8)))
    #expect(second.pin == facts.pin)
    unsafe unlink(first.keyPath)
    let error = #expect(throws: TLSConfigurationError.self) { try make() }
    #expect(error?.description.contains("but not its key") == true)
  }

  @Test(arguments: [
    (0, "1970-01-01"), (951_782_400, "2000-02-29"), (1_772_323_200, "2026-03-01"), (-1, "1969-12-31"),
    (253_402_300_799, "9999-12-31"),
  ])
  func daysAreThoseOfTheCalendar(seconds: Int64, day: String) { #expect(CertificateFacts.day(seconds) == day) }
}
