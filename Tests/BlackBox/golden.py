"""The golden bytes: what each name in Tests/Golden stands for, and how it is made.

`python golden.py` rewrites the files; test_golden.py holds the committed files against these values.
"""

import pathlib
import sys

from google.protobuf import text_format

import simpwire as wire
from message_pb2 import AUDIO, IMAGE, TEXT, Attachment, Message
from receipt_pb2 import (
    ACCEPTED, DELIVERED, EXPIRED, LATER, READ, REJECTED, STORED, Datagrams, Outcome, Receipt,
)
from session_pb2 import (
    ERROR_NOT_LOGGED_IN, ERROR_NOT_ONLINE, ERROR_REPLACED, ERROR_TOKEN_EXPIRED, ERROR_TOO_LARGE, Counter, Counters,
    Ended, Error, Kick, KickReply, Login, LoginReply, PathChallenge, PathResponse, PathUp, Ping, Renew, RenewReply,
)

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "Golden"

SECRET = bytes(range(32))
CONNECTION_ID = 0x00_0102_0304_05
DEVICE = 7
MESSAGE_ID = DEVICE << 40 | 1
TIME = 1_767_225_600_000  # 2026-01-01 00:00:00 UTC

ATTACHMENT = Attachment(
    url="https://media.example.org/a.opus", sha256=bytes(range(32)), size=70_000, mime="audio/ogg", width=640,
    height=480, duration_ms=61_500)
# All that a client may set.
SENT = Message(
    message_id=MESSAGE_ID, time=TIME, content="grüß dich, bob", image_url="https://media.example.org/a.jpg",
    to_user="bob", type=IMAGE, image_scale=1.5, order=300, floor=299, to_group="readers", attachment=ATTACHMENT,
    custom=bytes([0, 255, 128]))
FULL = Message()
FULL.CopyFrom(SENT)
FULL.from_user = "alice"
FULL.server_time = TIME + 3
# What the server appends to a payload when it relays it: fields 6 and 10, in this order.
APPENDED = Message(from_user="alice", server_time=TIME + 3)
HELLO = Message(message_id=MESSAGE_ID, time=TIME, content="hello", to_user="bob", type=TEXT, order=1, floor=1)
# A field 100 that nobody has defined yet, between those of HELLO: to be skipped, and relayed as it is.
UNKNOWN_FIELD = bytes([0xA2, 0x06, 0x03, 1, 2, 3])

LOGIN = Login(
    token="eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2ln", protocol_min=1, protocol_max=1, features=1 << 63,
    outbox_id=0x0123_4567_89AB_CDEF, device_number=DEVICE, send_only=True, software="example/1.0",
    receive_messages=1024, receive_bytes=4_194_304, ciphers=[1, 2])
LOGIN_REPLY = LoginReply(
    protocol=1, features=1 << 63, user="alice", device_number=DEVICE, connection_id=CONNECTION_ID, udp_port=7468,
    udp_secret=SECRET, cipher=1, session_epoch=1_767_225_600 << 20, server_time=TIME, node="5f3a9c01d2e4b687",
    maximum_packet_bytes=262_144, maximum_datagram_bytes=1200, window_messages=1024, window_bytes=4_194_304,
    order_window=16_384, udp_keepalive_ms=25_000, tcp_keepalive_ms=30_000, idle_timeout_ms=75_000,
    token_expires=TIME + 3_600_000)
OLD_LOGIN_REPLY = LoginReply()
OLD_LOGIN_REPLY.CopyFrom(LOGIN_REPLY)
OLD_LOGIN_REPLY.ClearField("token_expires")
RECEIPT = Receipt(
    datagrams=Datagrams(largest=1000, delay_us=1500, runs=[1, 300, 2], gaps=[1, 200], answered=[998]),
    outcomes=[
        Outcome(state=DELIVERED, user="bob", orders=[1, 128, 200, 1]),
        Outcome(state=LATER, user="carol", device=DEVICE, orders=[5, 1], code=ERROR_NOT_ONLINE, retry_after_ms=1000),
    ],
    room_messages=512, room_bytes=2_097_152)

MAX32, MAX64 = (1 << 32) - 1, (1 << 64) - 1

MESSAGES = {
    "login.full": LOGIN,
    "login.minimal": Login(token="t", protocol_min=1, protocol_max=1, outbox_id=1, ciphers=[1]),
    "login_reply.full": LOGIN_REPLY,
    "login_reply.without_token_expires": OLD_LOGIN_REPLY,  # of servers before field 20
    "login_reply.minimal": LoginReply(protocol=1, user="a", device_number=1),
    "error.full": Error(
        code=ERROR_TOKEN_EXPIRED, text="the token has expired", retry_after_ms=250, retry_spread_ms=2000),
    "error.without_retry_spread": Error(
        code=ERROR_TOKEN_EXPIRED, text="the token has expired", retry_after_ms=250),
    "error.minimal": Error(code=ERROR_NOT_LOGGED_IN),
    "ping.full": Ping(token=0x1122_3344_5566_7788),
    "ping.minimal": Ping(),
    "ended.full": Ended(
        code=ERROR_REPLACED, text="logged in elsewhere", retry_after_ms=1000, retry_spread_ms=26667),
    "ended.without_retry_spread": Ended(code=ERROR_REPLACED, text="logged in elsewhere", retry_after_ms=1000),
    "ended.minimal": Ended(code=ERROR_REPLACED),
    "renew.full": Renew(token=LOGIN.token),
    "renew_reply.full": RenewReply(token_expires=TIME + 3_600_000, server_time=TIME),
    "kick.full": Kick(user="mallory", reason="a stolen token"),
    "kick.minimal": Kick(user="mallory"),
    "kick_reply.full": KickReply(issued_until=TIME + 5000, stored=True),
    "counter.full": Counter(name="simp_logins_total", value=300),
    "counters.full": Counters(counters=[
        Counter(name="simp_logins_total", value=300), Counter(name="simp_messages_later_total")]),
    "path_challenge.full": PathChallenge(data=0xA0A1_A2A3_A4A5_A6A7, padding=bytes(4)),
    "path_challenge.minimal": PathChallenge(data=1),
    "path_response.full": PathResponse(data=0xA0A1_A2A3_A4A5_A6A7),
    "path_response.minimal": PathResponse(),
    "path_up.full": PathUp(address="2001:db8::7", port=40_123),
    "path_up.minimal": PathUp(address="::1", port=1),
    "message.full": FULL,
    "message.sent": SENT,
    "message.minimal": Message(message_id=1, to_user="b", order=1, floor=1),
    "message.text": HELLO,
    "message.audio": Message(message_id=2, to_user="b", type=AUDIO, order=2, floor=1, attachment=Attachment(url="u")),
    "message.extreme": Message(
        message_id=MAX64, time=MAX64, to_user="A" * 64, type=TEXT, image_scale=-0.5, order=MAX64, floor=MAX64),
    "attachment.full": ATTACHMENT,
    "attachment.minimal": Attachment(url="u"),
    "datagrams.full": RECEIPT.datagrams,
    "datagrams.minimal": Datagrams(runs=[1]),  # packet number 0 alone
    "datagrams.extreme": Datagrams(largest=MAX64, delay_us=MAX32, runs=[MAX32, 1], gaps=[MAX32], answered=[MAX64, 0]),
    "outcome.full": Outcome(state=DELIVERED, user="carol", device=DEVICE, orders=[5, 1], code=ERROR_NOT_ONLINE,
                            retry_after_ms=1000, kept=True),
    "outcome.kept": Outcome(state=DELIVERED, user="bob", orders=[1, 2], kept=True),
    "outcome.later": RECEIPT.outcomes[1],
    "outcome.minimal": Outcome(state=ACCEPTED, user="b", orders=[1, 1]),
    "outcome.stored": Outcome(state=STORED, user="b", orders=[1, 1]),
    "outcome.read": Outcome(state=READ, user="b", device=1, orders=[1, 1]),
    "outcome.rejected": Outcome(state=REJECTED, user="b", orders=[9, 1], code=ERROR_TOO_LARGE),
    "outcome.expired": Outcome(state=EXPIRED, user="b", orders=[1, 2, 4, 1]),
    "receipt.full": RECEIPT,
    "receipt.minimal": Receipt(datagrams=Datagrams(runs=[1])),
}


def message_bytes():
    made = {name: value.SerializeToString() for name, value in MESSAGES.items()}
    # These two parse to the values beside them, but an encoder writes them in another order.
    made["message.relayed"] = made["message.sent"] + APPENDED.SerializeToString()
    made["message.unknown_field"] = UNKNOWN_FIELD + made["message.text"]
    return made


PARSED_ONLY = {"message.relayed": FULL, "message.unknown_field": HELLO}

PACKETS = {
    "login": wire.packet(wire.LOGIN, LOGIN, sequence=1),
    "login_reply": wire.packet(wire.LOGIN, LOGIN_REPLY, flags=wire.RESPONSE, sequence=1),
    "error": wire.packet(wire.LOGIN, MESSAGES["error.full"], flags=wire.RESPONSE | wire.ERROR, sequence=1),
    "logout": wire.packet(wire.LOGOUT, MESSAGES["ping.full"], sequence=2),
    "logout_response": wire.packet(wire.LOGOUT, MESSAGES["ping.full"], flags=wire.RESPONSE, sequence=2),
    "ping": wire.packet(wire.PING, MESSAGES["ping.full"], sequence=0xFFFF),
    "ping_empty": wire.packet(wire.PING, Ping()),
    "ping_response": wire.packet(wire.PING, MESSAGES["ping.full"], flags=wire.RESPONSE, sequence=0xFFFF),
    "ended": wire.packet(wire.ENDED, MESSAGES["ended.full"]),
    "path_challenge": wire.packet(wire.PATH_CHALLENGE, MESSAGES["path_challenge.full"]),
    "path_response": wire.packet(wire.PATH_RESPONSE, MESSAGES["path_response.full"]),
    "path_up": wire.packet(wire.PATH_UP, MESSAGES["path_up.full"]),
    "probe_request": wire.packet(wire.PROBE_REQUEST, Ping()),
    "renew": wire.packet(wire.RENEW, MESSAGES["renew.full"], sequence=16),
    "renew_response": wire.packet(wire.RENEW, MESSAGES["renew_reply.full"], flags=wire.RESPONSE, sequence=16),
    "kick": wire.packet(wire.KICK, MESSAGES["kick.full"], sequence=17),
    "kick_response": wire.packet(wire.KICK, MESSAGES["kick_reply.full"], flags=wire.RESPONSE, sequence=17),
    "counters": wire.packet(wire.COUNTERS, Ping(), sequence=18),
    "counters_response": wire.packet(wire.COUNTERS, MESSAGES["counters.full"], flags=wire.RESPONSE, sequence=18),
    "message": wire.packet(wire.MESSAGE, HELLO),
    "message_wanted": wire.packet(wire.MESSAGE, HELLO, flags=wire.WANTED),
    "message_relayed": wire.Packet(wire.MESSAGE, HELLO.SerializeToString() + APPENDED.SerializeToString()),
    "receipt_datagrams": wire.packet(wire.RECEIPT, Receipt(datagrams=RECEIPT.datagrams)),
    "receipt_outcomes": wire.packet(wire.RECEIPT, Receipt(outcomes=RECEIPT.outcomes)),
    "receipt_kept": wire.packet(wire.RECEIPT, Receipt(outcomes=[MESSAGES["outcome.kept"]])),
    "receipt_room": wire.packet(wire.RECEIPT, Receipt(room_messages=512, room_bytes=2_097_152)),
}

PING_PAIR = PACKETS["ping_empty"].encoded() + PACKETS["message_wanted"].encoded()
CHALLENGE_DATA, ANSWER_DATA = 0xA0A1_A2A3_A4A5_A6A7, 0xB0B1_B2B3_B4B5_B6B7


def datagram_bytes():
    made = {"secret": SECRET}
    for cipher, name in ((wire.AES_128_GCM, "aes"), (wire.CHACHA20_POLY1305, "chacha")):
        for way in ("c2s", "s2c"):
            direction = wire.Direction(SECRET, cipher, way)
            made[f"{name}.{way}.key"] = direction.key
            made[f"{name}.{way}.iv"] = direction.iv
            made[f"{name}.{way}.plain"] = PING_PAIR
            made[f"{name}.{way}.datagram"] = direction.seal(CONNECTION_ID, 0x0102_0304_0506_0708, PING_PAIR)
            after = direction.next()
            made[f"{name}.{way}.1.secret"] = after.secret
            made[f"{name}.{way}.1.key"] = after.key
            made[f"{name}.{way}.1.iv"] = after.iv
            made[f"{name}.{way}.1.datagram"] = after.seal(CONNECTION_ID, 0x0102_0304_0506_0709, PING_PAIR)
    # The three datagrams of a path proof, as a new session sends them.
    there = wire.Direction(SECRET, wire.AES_128_GCM, "c2s")
    back = wire.Direction(SECRET, wire.AES_128_GCM, "s2c")
    made["proof.1.plain"] = wire.padded_challenge(CHALLENGE_DATA)
    made["proof.1.datagram"] = there.seal(CONNECTION_ID, 0, made["proof.1.plain"])
    answer = PACKETS["path_response"].encoded()
    made["proof.2.plain"] = wire.padded_challenge(ANSWER_DATA, answer)
    made["proof.2.datagram"] = back.seal(CONNECTION_ID, 0, made["proof.2.plain"])
    made["proof.3.plain"] = wire.packet(wire.PATH_RESPONSE, PathResponse(data=ANSWER_DATA)).encoded()
    made["proof.3.datagram"] = there.seal(CONNECTION_ID, 1, made["proof.3.plain"])
    return made


def files():
    """File name to (introduction, name to bytes, name to remark)."""
    remarks = {
        name: text_format.MessageToString(value, as_one_line=True, as_utf8=True)
        for name, value in (MESSAGES | PARSED_ONLY).items()
    }
    return {
        "messages.txt": (
            "Each Protobuf message of Protocols/, by Google's Python runtime, in field order. message.relayed\n"
            "(what a server appends stands at the end) and message.unknown_field parse to the values beside them,\n"
            "but an encoder gives other bytes.",
            message_bytes(), remarks),
        "packets.txt": (
            "Whole packets, header and payload, as on TCP. Their payloads are those of messages.txt.",
            {name: value.encoded() for name, value in PACKETS.items()}, {}),
        "datagrams.txt": (
            "Sealed datagrams under the secret below; connection id 00 01 02 03 04 05, the packet number is in the\n"
            "header. key and iv are derived from the secret; plain is what was sealed. .1. is the next key phase.",
            datagram_bytes(), {}),
    }


def read(file):
    """Name to bytes of a golden file: `name = hex` a line, `#` comments."""
    found = {}
    for line in (FOLDER / file).read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found[name.strip()] = bytes.fromhex(value)
    return found


def main():
    for file, (introduction, values, remarks) in files().items():
        lines = [f"# {line}" for line in introduction.split("\n")]
        lines += ["# Made by Tests/BlackBox/golden.py; WIRE.md explains the bytes.", ""]
        for name, value in values.items():
            if name in remarks:
                lines.append(f"# {remarks[name]}".rstrip())
            lines.append(f"{name} = {value.hex()}".rstrip())
        (FOLDER / file).write_text("\n".join(lines) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
