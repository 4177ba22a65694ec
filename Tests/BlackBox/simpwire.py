"""The bytes of SIMP, written from Protocols/WIRE.md alone: packets, the stream framer, sealed datagrams, ranges.

Shares no code with the Swift implementation: Protobuf by Google's runtime, AEAD and HKDF by `cryptography`.
"""

import struct
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

import message_pb2
import receipt_pb2
import session_pb2

HEADER = struct.Struct(">IHHHHHH")
HEADER_BYTES = 16
VERSION = 1
LIMIT_BEFORE_LOGIN = 4096
LIMIT_AFTER_LOGIN = 262_144
DATAGRAM_BYTES = 1200
TAG_BYTES = 16

RESPONSE, ERROR, WANTED = 1, 2, 4
KNOWN_FLAGS = RESPONSE | ERROR | WANTED

LOGIN, LOGOUT, PING, ENDED = (1, 1), (1, 2), (1, 3), (1, 4)
PATH_CHALLENGE, PATH_RESPONSE, PATH_UP, PROBE_REQUEST = (1, 5), (1, 6), (1, 7), (1, 8)
RENEW, KICK, COUNTERS = (1, 9), (1, 10), (1, 11)
MESSAGE = (2, 1)
RECEIPT = (3, 1)

REQUESTS = {
    LOGIN: session_pb2.Login,
    LOGOUT: session_pb2.Ping,
    PING: session_pb2.Ping,
    ENDED: session_pb2.Ended,
    PATH_CHALLENGE: session_pb2.PathChallenge,
    PATH_RESPONSE: session_pb2.PathResponse,
    PATH_UP: session_pb2.PathUp,
    PROBE_REQUEST: session_pb2.Ping,
    RENEW: session_pb2.Renew,
    KICK: session_pb2.Kick,
    COUNTERS: session_pb2.Ping,
    MESSAGE: message_pb2.Message,
    RECEIPT: receipt_pb2.Receipt,
}
RESPONSES = {
    LOGIN: session_pb2.LoginReply, LOGOUT: session_pb2.Ping, PING: session_pb2.Ping, RENEW: session_pb2.RenewReply,
    KICK: session_pb2.KickReply, COUNTERS: session_pb2.Counters,
}


class Malformed(Exception):
    """Bytes that the wire document does not allow."""


@dataclass(frozen=True)
class Packet:
    command: tuple[int, int]  # service, command
    payload: bytes = b""
    flags: int = 0
    sequence: int = 0

    @property
    def is_response(self):
        return bool(self.flags & RESPONSE)

    @property
    def is_error(self):
        return bool(self.flags & ERROR)

    def encoded(self, *, length=None, version=VERSION, reserved=0):
        """The overrides exist so that a test can lie in the header."""
        total = HEADER_BYTES + len(self.payload) if length is None else length
        head = HEADER.pack(total, version, self.flags, *self.command, self.sequence, reserved)
        return head + self.payload

    def decoded(self):
        """The payload as the Protobuf message that command and flags ask for."""
        if self.is_error:
            kind = session_pb2.Error
        elif self.is_response:
            kind = RESPONSES[self.command]
        else:
            kind = REQUESTS[self.command]
        return kind.FromString(self.payload)


def packet(command, message=None, *, flags=0, sequence=0):
    return Packet(command, b"" if message is None else message.SerializeToString(), flags, sequence)


def _take_packet(buffer, limit):
    """(packet, bytes used), or None while the packet is incomplete."""
    if len(buffer) < HEADER_BYTES:
        return None
    length, version, flags, service, command, sequence, reserved = HEADER.unpack_from(buffer)
    if not HEADER_BYTES <= length <= limit:
        raise Malformed(f"length {length} outside {HEADER_BYTES}..{limit}")
    if version != VERSION or reserved != 0:
        raise Malformed(f"version {version}, reserved {reserved}")
    if len(buffer) < length:
        return None
    return Packet((service, command), bytes(buffer[HEADER_BYTES:length]), flags, sequence), length


class Framer:
    """Cuts a byte stream into packets, however the reads happened to fall."""

    def __init__(self, limit=LIMIT_BEFORE_LOGIN):
        self.limit = limit
        self._buffer = bytearray()

    def feed(self, data):
        self._buffer += data
        packets = []
        while taken := _take_packet(self._buffer, self.limit):
            packets.append(taken[0])
            del self._buffer[: taken[1]]
        return packets

    @property
    def pending(self):
        return len(self._buffer)


def packets_of(plain):
    """The packets of a datagram, which must fill it exactly."""
    packets = []
    while plain:
        taken = _take_packet(plain, len(plain))
        if taken is None:
            raise Malformed("packets do not fill the datagram")
        packets.append(taken[0])
        plain = plain[taken[1] :]
    return packets


def derive(secret, info, length):
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=None, info=info.encode("ascii")).derive(secret)


AES_128_GCM, CHACHA20_POLY1305 = 1, 2
KEPT_OUTCOMES = 1  # a bit of `features`


class Direction:
    """Key and IV of one direction, "c2s" or "s2c", in one key phase."""

    def __init__(self, secret, cipher, name, number=0):
        self.secret, self.cipher, self.name, self.number = secret, cipher, name, number
        self.key = derive(secret, f"simp {name} key", 16 if cipher == AES_128_GCM else 32)
        self.iv = derive(secret, f"simp {name} iv", 12)
        self._aead = (AESGCM if cipher == AES_128_GCM else ChaCha20Poly1305)(self.key)

    def next(self):
        """The same direction in its next key phase."""
        return Direction(derive(self.secret, f"simp {self.name} next", 32), self.cipher, self.name, self.number + 1)

    def _nonce(self, number):
        return bytes(a ^ b for a, b in zip(self.iv, bytes(4) + number.to_bytes(8, "big")))

    def seal(self, connection_id, number, plain, *, kind=1, phase=None):
        phase = self.number & 1 if phase is None else phase
        head = bytes([kind, phase]) + connection_id.to_bytes(6, "big") + number.to_bytes(8, "big")
        return head + self._aead.encrypt(self._nonce(number), plain, head)

    def open(self, datagram):
        """(packet number, plain text); InvalidTag when it is not authentic."""
        if len(datagram) < HEADER_BYTES + TAG_BYTES or datagram[0] != 1 or datagram[1] != self.number & 1:
            raise InvalidTag
        number = int.from_bytes(datagram[8:16], "big")
        return number, self._aead.decrypt(self._nonce(number), datagram[16:], datagram[:16])


def padded_challenge(data, already=b"", total=DATAGRAM_BYTES, **header):
    """`already` and a PATH_CHALLENGE whose padding makes the sealed datagram exactly `total` bytes long."""
    room = total - HEADER_BYTES - TAG_BYTES - len(already)
    fixed = len(packet(PATH_CHALLENGE, session_pb2.PathChallenge(data=data)).encoded())
    for lead in (2, 3):  # tag and length of the padding field: the length takes 1 byte or 2
        challenge = session_pb2.PathChallenge(data=data, padding=bytes(room - fixed - lead))
        encoded = packet(PATH_CHALLENGE, challenge, **header).encoded()
        if len(encoded) == room:
            return already + encoded
    raise ValueError("this size cannot be reached")


def ranges_of(numbers):
    """(largest, runs, gaps) of Datagrams for a set of packet numbers, downward from the largest."""
    ordered = sorted(numbers, reverse=True)
    runs, gaps = [1], []
    for higher, lower in zip(ordered, ordered[1:]):
        if higher - lower == 1:
            runs[-1] += 1
        else:
            gaps.append(higher - lower - 1)
            runs.append(1)
    return ordered[0], runs, gaps


def numbers_of(datagrams):
    """The packet numbers that a Datagrams message says arrived."""
    if len(datagrams.runs) != len(datagrams.gaps) + 1 or 0 in datagrams.runs or 0 in datagrams.gaps:
        raise Malformed("runs and gaps")
    numbers, top = set(), datagrams.largest
    for index, run in enumerate(datagrams.runs):
        if top - run < -1:
            raise Malformed("a run reaches below 0")
        numbers.update(range(top - run + 1, top + 1))
        top -= run
        if index < len(datagrams.gaps):
            top -= datagrams.gaps[index]
    return numbers


def orders_of(outcome):
    """The orders that an Outcome names: pairs of first and count."""
    if len(outcome.orders) % 2:
        raise Malformed("orders come in pairs")
    pairs = zip(outcome.orders[::2], outcome.orders[1::2])
    return {order for first, count in pairs for order in range(first, first + count)}
