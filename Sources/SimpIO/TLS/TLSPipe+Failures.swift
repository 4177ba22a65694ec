internal import COpenSSL
internal import CSimpLinux

/// Why a connection was not made, or broke, for a person: what is wrong and what to do.
extension TLSPipe {
  /// Tells at once what is no TLS at all, instead of by what OpenSSL makes of it.
  func checkFirst(_ byte: UInt8, answer: inout [UInt8]) throws(PipeError) {
    // Content types of the records a handshake can begin with: alert and handshake.
    guard byte != Self.alertByte && byte != 0x16 else { return }
    guard host == nil else {
      throw PipeError(
        "what answers does not speak TLS: the server runs with TLS off, or another program has that port")
    }
    // A fatal alert, unexpected message: a client in clear text can tell by it what is wrong.
    answer += [Self.alertByte, 3, 3, 0, 2, 2, 10]
    throw PipeError("the client does not speak TLS")
  }

  var handshakeFailure: PipeError {
    // SAFETY: what is borrowed from the connection is used before it changes; texts of OpenSSL are static.
    let refusal = unsafe simp_tls_refusal(tls)
    if refusal != 0 {
      return unsafe refused(
        Int(refusal), leaf: simp_tls_refused_leaf(tls).flatMap { unsafe CertificateFacts($0) },
        refused: simp_tls_refused(tls).flatMap { unsafe CertificateFacts($0) })
    }
    let peer = host == nil ? "the client" : "the server"
    if unsafe simp_tls_is_other_version(tls) == 1 {
      return PipeError("\(peer) does not speak TLS 1.3, and nothing older is spoken here: bring it up to date")
    }
    switch unsafe simp_tls_alert(tls) {
    case -1: break
    case SSL_AD_NO_APPLICATION_PROTOCOL:
      return PipeError("the server speaks TLS, but not SIMP on this port: is the port right?")
    case SSL_AD_UNKNOWN_CA, SSL_AD_BAD_CERTIFICATE, SSL_AD_CERTIFICATE_UNKNOWN, SSL_AD_CERTIFICATE_EXPIRED:
      return PipeError("\(peer) does not trust the certificate it was shown (\(reason))")
    case _:
      return PipeError("\(peer) refused the TLS handshake (\(reason))")
    }
    if unsafe simp_tls_no_shared_protocol(tls) == 1 {
      return PipeError("the client speaks TLS, but not SIMP")
    }
    return PipeError("the TLS handshake made no sense (\(reason))")
  }

  /// Records that do not open once the handshake is done: damage, or somebody on the way who tried.
  var brokenRecords: PipeError {
    if unsafe simp_tls_alert(tls) >= 0 { return PipeError("the peer ended TLS (\(reason))") }
    return PipeError("bytes on the way were changed or are no TLS (\(reason))")
  }

  func expired(_ facts: CertificateFacts) -> PipeError {
    untrusted(
      "the server's certificate expired on \(CertificateFacts.day(facts.notAfter)): its operator has to renew it (or "
        + "the clock of this machine is wrong)")
  }

  private func refused(_ code: Int, leaf: CertificateFacts?, refused: CertificateFacts?) -> PipeError {
    let shown = leaf?.pin.description ?? "no readable key"
    let named = leaf?.names ?? "nobody"
    let host = host ?? ""
    switch code {
    case Int(X509_V_ERR_CERT_HAS_EXPIRED):
      if let facts = refused, facts != leaf {
        return untrusted(
          "a certificate above the server's own expired on \(CertificateFacts.day(facts.notAfter)): the server's "
            + "operator has to renew its chain")
      }
      return leaf.map(expired) ?? untrusted("the server's certificate has expired")
    case Int(X509_V_ERR_CERT_NOT_YET_VALID):
      let day = refused.map { CertificateFacts.day($0.notBefore) } ?? "a later day"
      return untrusted(
        "the server's certificate is not valid before \(day): is the clock of this machine right? Otherwise its "
          + "operator has to make another")
    case Int(X509_V_ERR_HOSTNAME_MISMATCH), Int(X509_V_ERR_IP_ADDRESS_MISMATCH):
      return untrusted(
        "the server's certificate is for \(named), not for \(host): connect by a name it is for, have \(host) added to "
          + "it, or pin its key")
    case Int(X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT):
      return untrusted(
        "the server's certificate is signed by itself, and nothing here says to trust it. Its key is \(shown): if its "
          + "operator tells you the same, pin it")
    case Int(X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN), Int(X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY),
      Int(X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT), Int(X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE),
      Int(X509_V_ERR_CERT_UNTRUSTED):
      return untrusted(
        "the server's certificate was issued by \(refused?.issuer ?? "somebody"), who is not trusted here: trust the "
          + "certificate of that authority, or pin the server's key")
    case Int(X509_V_ERR_APPLICATION_VERIFICATION):
      return untrusted(
        "the server's key is \(shown), and that is not the pinned one: its operator made a new key (ask for the new "
          + "pin), or somebody else answers in its place")
    case _:
      // SAFETY: a static text.
      let words = unsafe String(cString: simp_tls_refusal_text(Int32(code)))
      return untrusted("the server's certificate is not good: \(words)")
    }
  }

  private func untrusted(_ reason: String) -> PipeError {
    var error = PipeError(reason)
    error.isUntrusted = true
    return error
  }

  private var reason: String { unsafe String(cString: simp_tls_reason(tls)) }
}
