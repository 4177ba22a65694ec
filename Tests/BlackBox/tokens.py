"""Tokens and key sets by hand, from RFC 7515, 7517 and 7518: Debian's and PyPI's JWT libraries have no part in it."""

import base64
import hashlib
import hmac
import json

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature


def b64(value):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value, length=None):
    return b64(value.to_bytes(length or (value.bit_length() + 7) // 8, "big"))


class Key:
    """A key of an issuer: signs tokens, and shows itself as a JSON Web Key, public unless it is a secret."""

    def __init__(self, algorithm, kid):
        self.algorithm, self.kid = algorithm, kid
        if algorithm == "HS256":
            self.secret = hashlib.sha256(kid.encode()).digest()
        elif algorithm == "RS256":
            self.private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        else:
            self.private = ec.generate_private_key(ec.SECP256R1())

    @property
    def jwk(self):
        named = {"kid": self.kid, "alg": self.algorithm, "use": "sig"}
        if self.algorithm == "HS256":
            return named | {"kty": "oct", "k": b64(self.secret)}
        numbers = self.private.public_key().public_numbers()
        if self.algorithm == "RS256":
            return named | {"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)}
        return named | {"kty": "EC", "crv": "P-256", "x": number(numbers.x, 32), "y": number(numbers.y, 32)}

    def sign(self, signed):
        if self.algorithm == "HS256":
            return hmac.new(self.secret, signed, hashlib.sha256).digest()
        if self.algorithm == "RS256":
            return self.private.sign(signed, padding.PKCS1v15(), hashes.SHA256())
        r, s = decode_dss_signature(self.private.sign(signed, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    def token(self, claims, **header):
        """A header field given as None is left out."""
        fields = {"alg": self.algorithm, "kid": self.kid} | header
        signed = f"{b64({k: v for k, v in fields.items() if v is not None})}.{b64(claims)}"
        return f"{signed}.{b64(self.sign(signed.encode()))}"

    def public_forms(self):
        """The public key as an attacker may have it."""
        key = self.private.public_key()
        encodings, formats = serialization.Encoding, serialization.PublicFormat
        yield key.public_bytes(encodings.PEM, formats.SubjectPublicKeyInfo)
        yield key.public_bytes(encodings.PEM, formats.SubjectPublicKeyInfo).rstrip(b"\n")
        yield key.public_bytes(encodings.DER, formats.SubjectPublicKeyInfo)
        if self.algorithm == "RS256":
            yield key.public_bytes(encodings.PEM, formats.PKCS1)
            yield key.public_bytes(encodings.DER, formats.PKCS1)
        yield json.dumps(self.jwk).encode()


def forged(header, claims, secret):
    """Any header, signed with HMAC-SHA256."""
    signed = f"{b64(header)}.{b64(claims)}"
    return f"{signed}.{b64(hmac.new(secret, signed.encode(), hashlib.sha256).digest())}"


def write_set(path, *keys):
    path.touch(mode=0o600, exist_ok=True)
    path.write_text(json.dumps({"keys": [each.jwk for each in keys]}))
    return path
