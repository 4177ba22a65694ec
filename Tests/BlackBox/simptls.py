"""TLS as Protocols/WIRE.md asks for it, by Python's ssl module: version 1.3, ALPN, and a pin instead of authorities."""

import hashlib
import ssl

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


class WrongServer(Exception):
    pass


def pin_of(certificate):
    """The pin of a certificate in DER: SHA-256 of its public key."""
    key = x509.load_der_x509_certificate(certificate).public_key()
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return "sha256:" + hashlib.sha256(der).hexdigest()


def context():
    """Trusts nobody by itself: `wrap` looks at the key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["simp/1"])
    return context


def hello():
    """The first bytes that a client sends."""
    outgoing = ssl.MemoryBIO()
    try:
        context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def wrap(stream, pin, context=context(), session=None):
    """Shakes hands on a connected socket that may block."""
    wrapped = context.wrap_socket(stream, server_hostname="localhost", session=session)
    if (found := pin_of(wrapped.getpeercert(binary_form=True))) != pin:
        wrapped.close()
        raise WrongServer(f"the server has the key {found}, not {pin}")
    assert wrapped.version() == "TLSv1.3" and wrapped.selected_alpn_protocol() == "simp/1"
    return wrapped
