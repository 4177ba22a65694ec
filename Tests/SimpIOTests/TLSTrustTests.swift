import SimpIO
import Testing

/// Every reason not to trust a server has its own words.
@Suite struct TLSTrustTests {
  /// What the client says of this server.
  private func error(
    of identity: TLSIdentity, _ client: TLSClientContext, host: String = "localhost"
  ) throws -> PipeError? {
    let pair = try identity.pair(client, host: host).shakeHands()
    #expect(pair.client.isReady == (pair.clientError == nil))
    if pair.clientError != nil { #expect(!pair.server.isReady && pair.serverError != nil) }
    return pair.clientError
  }

  @Test(arguments: ["localhost", "LocalHost", "localhost.", "127.0.0.1", "::1", "[::1]", "im.example.org"])
  func aTrustedCertificateIsForItsNames(host: String) throws {
    let identity = try TLSIdentity(names: ["localhost", "127.0.0.1", "::1", "im.example.org"])
    #expect(try error(of: identity, identity.trusting(), host: host) == nil)
  }

  @Test(arguments: ["other.example.org", "127.0.0.2", "::2", "local", "sub.localhost"])
  func anotherHostIsRefused(host: String) throws {
    let identity = try TLSIdentity(names: ["localhost", "127.0.0.1"])
    let error = try error(of: identity, identity.trusting(), host: host)
    #expect(error?.isUntrusted == true)
    #expect(error?.reason.contains("is for localhost, 127.0.0.1, not for \(host)") == true, "\(error?.reason ?? "")")
  }

  @Test func anExpiredCertificateIsRefused() throws {
    let identity = try TLSIdentity(fromDay: -10, toDay: -2)
    let error = try error(of: identity, identity.trusting())
    #expect(error?.isUntrusted == true)
    let day = CertificateFacts.day(identity.context.facts.notAfter)
    #expect(error?.reason.contains("expired on \(day)") == true, "\(error?.reason ?? "")")
  }

  @Test func aResumedSessionDoesNotOutliveItsCertificate() throws {
    let identity = try TLSIdentity(toDay: 2)
    let days = Locked(UInt64(0))
    let now: @Sendable () -> UInt64 = { EventLoop.wallClockSeconds + days.withLock { $0 } * 86_400 }
    let client = try TLSClientContext(.authorities(file: identity.directory.certificate), now: now)
    let pinning = try TLSClientContext(.pins([identity.pin]), now: now)
    for context in [client, pinning] { #expect(try error(of: identity, context) == nil) }
    days.withLock { $0 = 1 }
    #expect(try error(of: identity, client) == nil)
    days.withLock { $0 = 3 }
    let pair = try identity.pair(client).shakeHands()
    #expect(pair.clientError?.isUntrusted == true && pair.clientError?.reason.contains("expired on") == true)
    #expect(!pair.client.isReady)
    // Its session is forgotten, so that OpenSSL looks at the certificate again; a pin has no dates.
    #expect(try identity.pair(client).shakeHands().client.agreement?.isResumed == false)
    #expect(try error(of: identity, pinning) == nil)
  }

  @Test func aCertificateOfTomorrowIsRefused() throws {
    let identity = try TLSIdentity(fromDay: 2, toDay: 9)
    let error = try error(of: identity, identity.trusting())
    #expect(error?.isUntrusted == true)
    #expect(error?.reason.contains("not valid before 20") == true && error?.reason.contains("clock") == true)
  }

  @Test func aSelfSignedCertificateNeedsTrust() throws {
    let identity = try TLSIdentity()
    for client in [try TLSClientContext(.system), try TLSIdentity().trusting()] {
      let error = try error(of: identity, client)
      #expect(error?.isUntrusted == true)
      #expect(error?.reason.contains("signed by itself") == true && error?.reason.contains("\(identity.pin)") == true)
    }
  }

  @Test func anUnknownAuthorityIsNamed() throws {
    let directory = try TLSDirectory()
    try directory.makeIssuedCertificate()
    let server = try TLSServerContext(certificateFile: directory.certificate, keyFile: directory.key)
    func attempt(_ client: TLSClientContext) throws -> PipeError? {
      TLSPair(try client.makePipe(to: "localhost", port: 1), server.makePipe()).shakeHands().clientError
    }
    let error = try attempt(TLSClientContext(.system))
    #expect(error?.isUntrusted == true)
    #expect(error?.reason.contains("issued by CN = Authority of a test") == true, "\(error?.reason ?? "")")
    #expect(try attempt(TLSClientContext(.authorities(file: directory.path + "/ca.crt"))) == nil)
    #expect(try attempt(TLSClientContext(.pins([server.facts.pin]))) == nil)
  }

  @Test func aPinIsAllThatCounts() throws {
    let identity = try TLSIdentity(names: ["elsewhere.example.org"], fromDay: -9, toDay: -2)
    let other = try TLSIdentity().pin
    #expect(try error(of: identity, TLSClientContext(.pins([identity.pin])), host: "127.0.0.1") == nil)
    #expect(try error(of: identity, TLSClientContext(.pins([other, identity.pin]))) == nil)
    let error = try error(of: identity, TLSClientContext(.pins([other])))
    #expect(error?.isUntrusted == true)
    #expect(error?.reason.contains("key is \(identity.pin), and that is not the pinned one") == true)
  }

  @Test func pinsAreReadInEveryUsualForm() throws {
    let digits = String(repeating: "0aB9", count: 16)
    let pin = try #require(PublicKeyPin("sha256:\(digits)"))
    #expect("\(pin)" == "sha256:\(digits.lowercased())")
    #expect(PublicKeyPin("SHA256:" + String(repeating: "0A:b9:", count: 16).dropLast()) == pin)
    for wrong in ["", digits, "sha256:", "sha256:\(digits.dropLast())", "sha256:\(digits)00", "sha1:\(digits)"] {
      #expect(PublicKeyPin(wrong) == nil, "\(wrong)")
    }
    #expect(PublicKeyPin("sha256:" + digits.replacing("B", with: "G")) == nil)
    #expect(PublicKeyPin.list("sha256:\(digits), sha256:\(digits)") == [pin, pin])
    #expect(PublicKeyPin.list("") == nil && PublicKeyPin.list("sha256:\(digits),x") == nil)
  }

  @Test func aPinIsWhatOpenSSLSaysOfTheKey() throws {
    let directory = try TLSDirectory()
    try directory.makeCertificate(names: ["localhost"])
    try directory.run(
      "openssl x509 -in server.crt -noout -pubkey | openssl pkey -pubin -outform der | sha256sum | cut -c -64")
    let said = try readFile(directory.path + "/other").split(separator: "\n").last.map(String.init)
    let facts = try #require(CertificateFacts(pem: Array(try readFile(directory.certificate).utf8)))
    #expect(facts.pin.description == "sha256:\(said ?? "")")
  }

  @Test func aTrustFileThatIsNoneIsTold() throws {
    let directory = try TLSDirectory()
    #expect(throws: TLSConfigurationError.self) { try TLSClientContext(.authorities(file: directory.path + "/none")) }
    try directory.write("other", Array("no certificate".utf8))
    let error = #expect(throws: TLSConfigurationError.self) {
      try TLSClientContext(.authorities(file: directory.path + "/other"))
    }
    #expect(error?.description.contains("holds no certificate") == true)
    #expect(throws: TLSConfigurationError.self) { try TLSClientContext(.pins([])) }
  }
}
