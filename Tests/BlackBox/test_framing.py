"""The byte stream: every way to cut it, and every way to break it, against a running server."""

import pytest

import simpwire as wire
from message_pb2 import Message
from receipt_pb2 import Receipt
from session_pb2 import (
    ERROR_MALFORMED, ERROR_NAME_INVALID, ERROR_TEXT_INVALID, ERROR_TOO_LARGE, ERROR_UNKNOWN_COMMAND,
    ERROR_UNKNOWN_FLAGS, ERROR_UNSUPPORTED_VERSION, Login, Ping,
)
from simpclient import wait_all


@pytest.fixture
def client(clients, names):
    return clients.login(*names("alice"))


def ping(number):
    return wire.packet(wire.PING, Ping(token=number), sequence=number)


def answered(client, *numbers):
    for number in numbers:
        answer = client.wait(lambda: client.responses.get((wire.PING, number)))
        assert answer.decoded().token == number


def ends(client, code=None):
    """The connection is closed, after ENDED with the code."""
    client.wait(lambda: client.closed)
    if code is not None:
        assert client.ended is not None and client.ended.code == code, client.ended


def in_pieces(client, *pieces):
    """Each in a segment of its own, as far as a loopback keeps them apart: what came before was answered."""
    for number, piece in enumerate(pieces):
        client.send_bytes(piece)
        client.wait(lambda: not client.unsent)
        client.settle(0.003)


@pytest.mark.parametrize("cut", range(1, 25))
def test_a_packet_split_at_each_byte(client, cut):
    data = ping(7).encoded()
    assert len(data) == 25
    in_pieces(client, data[:cut], data[cut:])
    answered(client, 7)


def test_byte_by_byte(client):
    in_pieces(client, *[bytes([byte]) for byte in ping(1).encoded() + ping(2).encoded()])
    answered(client, 1, 2)


def test_two_packets_in_one_read_and_leftovers(client):
    """The seed's framing kept one packet a read and lost what followed."""
    data = b"".join(ping(number).encoded() for number in range(1, 6))
    in_pieces(client, data[:60], data[60:99], data[99:100], data[100:])
    answered(client, 1, 2, 3, 4, 5)


def test_a_thousand_packets_in_one_write(client):
    client.send_bytes(b"".join(ping(number).encoded() for number in range(1, 1001)))
    answered(client, 1, 500, 1000)
    assert len([key for key in client.responses if key[0] == wire.PING]) == 1000


def test_login_byte_by_byte_and_with_packets_behind_it(clients, names):
    client = clients.new(*names("alice")).connect()
    login = Login(token=client.token, protocol_min=1, protocol_max=1, outbox_id=9, ciphers=[1])
    data = wire.packet(wire.LOGIN, login, sequence=1).encoded()
    for byte in data[:-1]:
        client.send_bytes(bytes([byte]))
    client.send_bytes(data[-1:] + ping(2).encoded() + ping(3).encoded())
    client.wait(lambda: client.responses.get((wire.LOGIN, 1)))
    answered(client, 2, 3)


@pytest.mark.parametrize("size", [200, 255, 256, 257, 300, 1023, 1024, 65_535, 65_536, 65_537, 200_000])
def test_lengths_over_255(clients, names, size):
    """The seed wrote the low byte of a length four times."""
    alice, bob = names("alice", "bob")
    a, b = clients.login(alice), clients.login(bob)
    sent = a.compose(bob)
    sent.message.floor = 1
    missing = size - len(wire.packet(wire.MESSAGE, sent.message).encoded())
    sent.message.content = "x" * (missing - (2 if missing < 130 else 3 if missing < 16_387 else 4))
    packet = wire.packet(wire.MESSAGE, sent.message)
    assert len(packet.encoded()) == size
    a.send_packet(packet)
    wait_all([a, b], lambda: b.inbox)
    assert b.inbox[0].content == sent.message.content


def padded_ping(size, number):
    """A PING of exactly `size` bytes: an unknown field fills it."""
    room = size - wire.HEADER_BYTES - len(Ping(token=number).SerializeToString())
    for lead in (3, 4, 5):  # tag of 2 bytes, then the length
        length, digits = room - lead, bytearray()
        while length > 127:
            digits.append(length & 127 | 128)
            length >>= 7
        digits.append(length)
        if len(digits) + 2 == lead:
            filling = bytes([0xA2, 0x06]) + digits + bytes(room - lead)
            return wire.Packet(wire.PING, Ping(token=number).SerializeToString() + filling, 0, number)
    raise ValueError(size)


def test_the_limit_after_login(client):
    packet = padded_ping(wire.LIMIT_AFTER_LOGIN, 3)
    assert len(packet.encoded()) == wire.LIMIT_AFTER_LOGIN
    client.send_packet(packet)
    answered(client, 3)


@pytest.mark.parametrize("length", [0, 1, 15, wire.LIMIT_AFTER_LOGIN + 1, 1 << 24, 1 << 31, 0xFFFFFFFF])
def test_lengths_that_end_the_connection(client, length):
    client.send_bytes(ping(1).encoded())
    answered(client, 1)
    client.send_bytes(wire.Packet(wire.PING).encoded(length=length))
    ends(client, ERROR_TOO_LARGE)


@pytest.mark.parametrize("length", [0, 15, wire.LIMIT_AFTER_LOGIN + 1, 0xFFFFFFFF])
def test_a_bad_length_is_judged_by_its_four_bytes(client, length):
    client.send_bytes(length.to_bytes(4, "big"))
    ends(client, ERROR_TOO_LARGE)


def test_the_limit_before_login(clients, names):
    client = clients.new(*names("alice")).connect()
    packet = padded_ping(wire.LIMIT_BEFORE_LOGIN, 3)
    client.send_packet(packet)
    client.wait(lambda: client.responses.get((wire.PING, 3)))  # refused, but read
    client.send_bytes(wire.Packet(wire.PING).encoded(length=wire.LIMIT_BEFORE_LOGIN + 1))
    ends(client, ERROR_TOO_LARGE)


def test_length_16_is_an_empty_payload(client):
    client.send_packet(wire.Packet(wire.PING, b"", 0, 9))
    assert client.wait(lambda: client.responses.get((wire.PING, 9))).decoded() == Ping()


@pytest.mark.parametrize("wrong, code", [
    (dict(version=0), ERROR_UNSUPPORTED_VERSION), (dict(version=2), ERROR_UNSUPPORTED_VERSION),
    (dict(version=0x0100), ERROR_UNSUPPORTED_VERSION), (dict(reserved=1), ERROR_MALFORMED),
    (dict(reserved=0x8000), ERROR_MALFORMED),
])
def test_headers_that_end_the_connection(client, wrong, code):
    client.send_bytes(wire.Packet(wire.PING, b"", 0, 1).encoded(**wrong) + ping(2).encoded())
    ends(client, code)
    assert not client.responses.get((wire.PING, 2))


@pytest.mark.parametrize("flags", [8, 0x8000, 0xFFF8])
def test_unknown_flags(client, flags):
    client.send_packet(wire.Packet(wire.PING, b"", flags, 1))
    ends(client, ERROR_UNKNOWN_FLAGS)


@pytest.mark.parametrize(
    "command", [(0, 0), (1, 0), (1, 99), (2, 2), (3, 0), (4, 1), (5, 1), (0xFFFF, 0xFFFF), (256, 3)])
def test_unknown_commands_get_an_error_and_the_connection_lives(client, command):
    client.send_packet(wire.Packet(command, b"anything", 0, 0xABCD))
    answer = client.wait(lambda: client.responses.get((command, 0xABCD)))
    assert answer.is_error and answer.decoded().code == ERROR_UNKNOWN_COMMAND
    client.send_packet(ping(4))
    answered(client, 4)


@pytest.mark.parametrize(
    "command", [wire.ENDED, wire.PATH_UP, wire.PROBE_REQUEST, wire.PATH_CHALLENGE, wire.PATH_RESPONSE])
def test_commands_from_the_wrong_side_or_on_the_wrong_channel(client, command):
    client.send_packet(wire.Packet(command, b"", 0, 3))
    assert client.wait(lambda: client.responses.get((command, 3))).decoded().code == ERROR_UNKNOWN_COMMAND
    client.send_packet(ping(4))
    answered(client, 4)


@pytest.mark.parametrize("flags", [wire.RESPONSE, wire.RESPONSE | wire.ERROR])
@pytest.mark.parametrize("command", [wire.PING, wire.LOGIN, (9, 9), wire.MESSAGE])
def test_a_response_is_never_answered(client, flags, command):
    client.send_packet(wire.Packet(command, b"\xff", flags, 77))
    client.send_packet(ping(4))
    answered(client, 4)
    assert (command, 77) not in client.responses


BROKEN = [b"\xff", b"\x10", b"\x0a\x7f", b"\x00", b"\x0b", b"\x0f\x01", b"\x10" + b"\xff" * 10, b"\x10" + b"\x80" * 11,
          b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x09\x01"]


@pytest.mark.parametrize("payload", BROKEN, ids=[each.hex() for each in BROKEN])
@pytest.mark.parametrize("command", [wire.PING, wire.MESSAGE, wire.RECEIPT, wire.LOGOUT])
def test_corrupt_protobuf(client, command, payload):
    client.send_packet(wire.Packet(command, payload, 0, 70))
    answer = client.wait(lambda: client.responses.get((command, 70)))
    assert answer.is_error and answer.decoded().code == ERROR_MALFORMED
    client.send_packet(ping(4))
    answered(client, 4)


def test_corrupt_login(clients, names):
    client = clients.new(*names("alice")).connect()
    client.send_packet(wire.Packet(wire.LOGIN, b"\x0a\x7fabc", 0, 70))
    assert client.wait(lambda: client.responses.get((wire.LOGIN, 70))).decoded().code == ERROR_MALFORMED


def field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


BAD_TEXT = [b"\xff\xfe", b"a\0b", b"\0", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"abc\xe2\x82", b"\x80"]


@pytest.mark.parametrize("text", BAD_TEXT, ids=[each.hex() for each in BAD_TEXT])
@pytest.mark.parametrize("number", [4, 5, 13, 14])
def test_strings_that_are_not_text(client, names, number, text):
    (bob,) = names("bob")
    good = Message(message_id=client.device << 40 | 1, to_user=bob, order=1, floor=1).SerializeToString()
    bad = field(14, field(1, text)) if number == 14 else field(number, text)
    for payload in (good + bad, bad + good, good + bad + field(4, b"good")):
        client.errors.clear(), client.outcomes.clear()
        client.send_packet(wire.Packet(wire.MESSAGE, payload))
        told = client.wait(lambda: client.errors + client.outcomes)
        assert told[0].code == ERROR_TEXT_INVALID
    client.send_packet(ping(4))
    answered(client, 4)


@pytest.mark.parametrize("text", BAD_TEXT, ids=[each.hex() for each in BAD_TEXT])
def test_names_that_are_not_text(client, text):
    payload = Message(message_id=client.device << 40 | 1, order=1, floor=1).SerializeToString() + field(7, text)
    client.send_packet(wire.Packet(wire.MESSAGE, payload))
    told = client.wait(lambda: client.errors + client.outcomes)
    assert told[0].code in (ERROR_TEXT_INVALID, ERROR_NAME_INVALID)


def test_text_in_the_login(clients, names):
    for number in (1, 8):  # token, software
        client = clients.new(*names("alice")).connect()
        login = Login(token=client.token, protocol_min=1, protocol_max=1, outbox_id=9).SerializeToString()
        client.send_packet(wire.Packet(wire.LOGIN, login + field(number, b"a\0b"), 0, 5))
        answer = client.wait(lambda: client.responses.get((wire.LOGIN, 5)))
        assert answer.decoded().code == ERROR_TEXT_INVALID


def test_receipts_that_make_no_sense(client):
    """Ranges below 0, no runs, numbers never sent: malformed or ignored, and the connection lives."""
    for payload in (
        Receipt(datagrams=dict(largest=3, runs=[5])), Receipt(datagrams=dict(largest=3)),
        Receipt(datagrams=dict(largest=9, runs=[1, 1], gaps=[9])), Receipt(datagrams=dict(largest=9, runs=[0])),
        Receipt(datagrams=dict(largest=(1 << 64) - 1, runs=[1])),
        Receipt(datagrams=dict(largest=(1 << 64) - 1, runs=[(1 << 32) - 1] * 32, gaps=[(1 << 32) - 1] * 31)),
        Receipt(datagrams=dict(largest=5000, runs=[1] * 2000, gaps=[1] * 1999)),
        Receipt(datagrams=dict(largest=1, runs=[1], answered=list(range(5000)))), Receipt(),
        Receipt(outcomes=[dict(state=4, user="nobody", orders=[1, 1])]),
        Receipt(outcomes=[dict(state=4, user="", orders=[1, 1])]),
        Receipt(outcomes=[dict(state=99, user="nobody", orders=[1, 1])] * 600),
        Receipt(room_messages=(1 << 32) - 1, room_bytes=(1 << 64) - 1),
    ):
        client.send_packet(wire.packet(wire.RECEIPT, payload))
    client.send_packet(ping(4))
    answered(client, 4)


def test_the_end_of_the_stream_in_the_middle_of_a_packet(clients, names):
    (alice,) = names("alice")
    for cut in (1, 8, 16, 20):
        client = clients.login(alice)
        client.send_bytes(ping(1).encoded()[:cut])
        client.close()
    assert clients.login(alice).request(wire.PING, Ping(token=5)).token == 5
