"""Certificates of every kind, for tests of what is trusted."""

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

NOW = datetime.datetime.now(datetime.timezone.utc)


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Issued:
    """A certificate and its key, in files; signed by `issuer`, or by itself."""

    def __init__(self, directory, name, names=("localhost", "127.0.0.1"), issuer=None, first_day=-1, last_day=1,
                 is_authority=False):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.subject = _name(name)
        entries = [_entry(each) for each in names]
        signer = issuer or self
        builder = (
            x509.CertificateBuilder().subject_name(self.subject).issuer_name(signer.subject)
            .public_key(self.key.public_key()).serial_number(x509.random_serial_number())
            .not_valid_before(NOW + datetime.timedelta(days=first_day))
            .not_valid_after(NOW + datetime.timedelta(days=last_day))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(entries), critical=False))
        certificate = builder.sign(signer.key, hashes.SHA256())
        self.certificate, self.key_file = directory / f"{name}.crt", directory / f"{name}.key"
        chain = b"" if issuer is None or issuer.is_root else issuer.certificate.read_bytes()
        self.certificate.write_bytes(certificate.public_bytes(Encoding.PEM) + chain)
        self.key_file.write_bytes(
            self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        self.key_file.chmod(0o600)
        self.is_root = issuer is None
        self.der = certificate.public_bytes(Encoding.DER)


def _entry(name):
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
