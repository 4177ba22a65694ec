"""A client that speaks valid sessions and breaks one thing at a time, from a fixed seed: the server lives, answers as the
wire document says or keeps silent, and an honest pair of sessions beside it loses nothing.

`Tests/BlackBox/run test_breaks.py --breaks 5000` breaks so many things a seed.
"""

import random

import pytest

import session_pb2
import simpwire as wire
from breaks import broken_fields, header_breaks
from message_pb2 import TEXT, Attachment, Message
from receipt_pb2 import DELIVERED, LATER, Datagrams, MessageState, Outcome, Receipt
from session_pb2 import ERROR_INTERNAL, ERROR_REPLACED, ErrorCode, Login, PathChallenge, PathResponse, Ping
from simpclient import wait_all

CODES = set(ErrorCode.values()) - {ERROR_INTERNAL, session_pb2.ERROR_UNSPECIFIED}


class Rogue:
    """Watches what the server says to a client that breaks things."""

    def __init__(self, client):
        self.client = client
        self.take, client._take = client._take, self.check
        client.retransmits = client.confirms = False
        self.orders = 0

    def check(self, packet, via):
        """Whatever comes is well-formed, and says something that the document has a word for."""
        if packet.is_error:
            assert via == "tcp", f"an error by UDP: {packet}"
            assert packet.decoded().code in CODES, packet.decoded()
            self.client.responses[packet.command, packet.sequence] = packet
            return
        if packet.command == wire.RECEIPT:
            for outcome in packet.decoded().outcomes:
                assert via == "tcp" and outcome.state in MessageState.values() and outcome.state != 0, outcome
                assert outcome.code in CODES | {0}, outcome
            return
        self.take(packet, via)

    def message(self, user):
        self.orders += 1
        return Message(message_id=self.client.device << 40 | self.orders, time=7, content="grüß", to_user=user, type=TEXT,
                       order=self.orders, floor=self.orders, image_scale=1.5, custom=b"\x00\xff",
                       attachment=Attachment(url="https://example.org/1", sha256=bytes(32), size=9, mime="a/b", width=1))

    def valid(self, dice, user):
        """A command and a payload that a client may send at any time."""
        largest = max(self.client.number - 1, 0)
        return dice.choice([
            lambda: (wire.PING, Ping(token=dice.randrange(1 << 64))),
            lambda: (wire.MESSAGE, self.message(user)),
            lambda: (wire.MESSAGE, self.message(user)),
            lambda: (wire.RECEIPT, Receipt(datagrams=Datagrams(largest=0, delay_us=5, runs=[1]))),
            lambda: (wire.RECEIPT, Receipt(
                datagrams=Datagrams(largest=largest, runs=[1, 1], gaps=[1], answered=[largest]),
                outcomes=[Outcome(state=dice.choice([DELIVERED, LATER]), user=user, device=1, orders=[1, 3, 9, 2])],
                room_messages=100, room_bytes=100_000)),
            lambda: (wire.PATH_CHALLENGE, PathChallenge(data=dice.randrange(1, 1 << 64), padding=bytes(900))),
            lambda: (wire.PATH_RESPONSE, PathResponse(data=dice.randrange(1, 1 << 64))),
            lambda: (wire.LOGIN, self.login()),
        ])()

    def login(self):
        return Login(token=self.client.token, protocol_min=1, protocol_max=1, outbox_id=9, device_number=1,
                     software="rogue/1", ciphers=[1, 2])

    def alive(self):
        """Everything before it was dealt with; False when the server closed."""
        client = self.client
        client.sequence = client.sequence % 60_000 + 1
        mine = client.sequence
        client.send_packet(wire.packet(wire.PING, Ping(), sequence=mine))
        client.wait(lambda: client.responses.pop((wire.PING, mine), None) or client.closed, 20)
        return not client.closed


class Play:
    """A rogue, the user it sends to, and an honest pair beside them."""

    def __init__(self, clients, names, seed):
        self.clients, self.dice = clients, random.Random(seed)
        self.rogue_name, self.target, alice, bob = names("rogue", "target", "alice", "bob")
        self.a, self.b, self.bob, self.alice = clients.online(alice), clients.online(bob), bob, alice
        self.addressee = Rogue(clients.login(self.target))
        self.sent = []
        self.rogue = None

    def honest(self):
        """One message more, by either channel."""
        self.sent.append(self.a.send(self.bob, f"{len(self.sent)}", by=self.dice.choice([None, None, "tcp"])))
        for each in (self.a, self.b, self.addressee.client):
            each.pump()

    def fresh(self):
        if self.rogue is not None:
            self.rogue.client.close()
            self.clients.all.remove(self.rogue.client)
        client = self.clients.login(self.rogue_name)
        self.rogue = Rogue(client)
        client.start_proof()
        client.wait(lambda: client.path_up)
        return self.rogue

    def finish(self):
        wait_all([self.a, self.b], lambda: all(each.is_final for each in self.sent), 30)
        assert self.b.texts(self.alice) == [f"{number}" for number in range(len(self.sent))]
        assert all(DELIVERED in each.states for each in self.sent)
        assert not self.a.closed and not self.b.closed


def by_datagram(rogue, plain):
    rogue.client.send_datagram(plain[: wire.DATAGRAM_BYTES - 32])


# -- The things to break. Each returns whether the session must live.


def a_field(rogue, play):
    command, message = rogue.valid(play.dice, play.target)
    packet = wire.Packet(command, broken_fields(play.dice, message), 0, play.dice.randrange(1, 1 << 16))
    if play.dice.random() < 0.5:
        rogue.client.send_packet(packet)
    else:
        by_datagram(rogue, packet.encoded())
    return True


def a_header_in_a_datagram(rogue, play):
    """What stands before the broken header holds, the rest is dropped, and the session lives."""
    command, message = rogue.valid(play.dice, play.target)
    good = wire.packet(wire.PING, Ping(token=3)).encoded()
    bad = play.dice.choice(header_breaks(wire.packet(command, message)))[0]
    by_datagram(rogue, good + bad)
    return True


def a_header(rogue, play):
    """On TCP it is the end, and the server says why."""
    command, message = rogue.valid(play.dice, play.target)
    data, code = play.dice.choice(header_breaks(wire.packet(command, message)))
    rogue.client.send_bytes(data)
    rogue.client.wait(lambda: rogue.client.closed, 20)
    assert rogue.client.ended is not None and rogue.client.ended.code == code, (data[:16], rogue.client.ended)
    return False


def a_seal(rogue, play):
    """Another number, phase, kind, id, direction, or a cut: silence."""
    client = rogue.client
    command, message = rogue.valid(play.dice, play.target)
    good = bytearray(client.sealing.seal(client.session.connection_id, client.number + 7, wire.packet(command, message)
                                         .encoded()))
    match play.dice.randrange(4):
        case 0:
            good[play.dice.randrange(len(good))] ^= 1 << play.dice.randrange(8)
        case 1:
            del good[play.dice.randrange(len(good)) :]
        case 2:
            good += play.dice.randbytes(play.dice.randrange(1, 40))
        case 3 if client.datagrams_in:
            good = bytearray(play.dice.choice(client.datagrams_in)[0])
    client.send_raw(bytes(good))
    return True


def a_channel(rogue, play):
    """A command where it has no place."""
    if play.dice.random() < 0.5:
        command = play.dice.choice([wire.PATH_CHALLENGE, wire.PATH_RESPONSE, wire.PATH_UP, wire.PROBE_REQUEST, wire.ENDED])
        rogue.client.send_packet(wire.packet(command, Ping(token=1), flags=play.dice.choice([0, 1, 3])))
    else:
        outcomes = Receipt(outcomes=[Outcome(state=DELIVERED, user=play.target, device=1, orders=[1, 9])])
        for packet in (wire.packet(wire.LOGIN, rogue.login()), wire.packet(wire.LOGOUT, Ping(token=5)),
                       wire.packet(wire.RECEIPT, outcomes)):
            by_datagram(rogue, packet.encoded())
    return True


def an_order_of_commands(rogue, play):
    """Any commands in any order, by both channels, some twice."""
    for _ in range(play.dice.randrange(1, 7)):
        command, message = rogue.valid(play.dice, play.target)
        packet = wire.packet(command, message, flags=play.dice.choice([0, 0, 4, 1, 3]), sequence=play.dice.randrange(9))
        for _ in range(play.dice.choice([1, 1, 2])):
            if play.dice.random() < 0.5:
                rogue.client.send_packet(packet)
            else:
                by_datagram(rogue, packet.encoded())
    return True


def a_datagram_twice(rogue, play):
    client = rogue.client
    command, message = rogue.valid(play.dice, play.target)
    number, client.number = client.number, client.number + 1
    datagram = client.sealing.seal(client.session.connection_id, number, wire.packet(command, message).encoded())
    client.sent_datagrams[number] = (0.0, [])
    for _ in range(3):
        client.send_raw(datagram)
    return True


def the_length_of_a_stream(rogue, play):
    """Half a packet, and the connection is gone."""
    command, message = rogue.valid(play.dice, play.target)
    data = wire.packet(command, message).encoded()
    rogue.client.send_bytes(data[: play.dice.randrange(1, len(data))])
    return False


def the_state(rogue, play):
    """Before the login, behind LOGOUT, and with a login that is broken."""
    client = play.clients.new(play.rogue_name).connect()
    early = Rogue(client)
    try:
        command, message = early.valid(play.dice, play.target)
        match play.dice.randrange(3):
            case 0 if command != wire.LOGIN:
                client.send_packet(wire.packet(command, message, sequence=5))
                answer = client.wait(lambda: client.responses.get((command, 5)), 20)
                assert answer.is_error and answer.decoded().code == session_pb2.ERROR_NOT_LOGGED_IN
            case 1:
                payload = broken_fields(play.dice, Login(token=play.rogue_name, outbox_id=1))
                client.send_packet(wire.Packet(wire.LOGIN, payload, 0, 5))
                client.wait(lambda: client.closed, 20)  # a token that is none
            case _:
                rogue.client.send_packet(wire.packet(wire.LOGOUT, Ping(token=1), sequence=60_001))
                rogue.client.send_packet(wire.packet(command, message, sequence=60_002))
                rogue.client.wait(lambda: rogue.client.closed, 20)
                assert (wire.LOGOUT, 60_001) in rogue.client.responses
                assert (command, 60_002) not in rogue.client.responses
                return False
    finally:
        client.close()
        play.clients.all.remove(client)
    return True


def the_only_session(rogue, play):
    """A second session of the user takes over in the middle of a packet of the first."""
    data = wire.packet(wire.MESSAGE, rogue.message(play.target)).encoded()
    rogue.client.send_bytes(data[:20])
    play.rogue, first = None, rogue
    play.fresh()
    first.client.wait(lambda: first.client.closed, 20)
    assert first.client.ended is not None and first.client.ended.code == ERROR_REPLACED
    first.client.close()
    play.clients.all.remove(first.client)
    return True


BREAKS = [a_field] * 8 + [
    a_header_in_a_datagram, a_header, a_seal, a_seal, a_channel, an_order_of_commands, an_order_of_commands,
    a_datagram_twice, the_length_of_a_stream, the_state, the_only_session]


@pytest.mark.parametrize("seed", range(3))
def test_one_thing_at_a_time(clients, names, request, seed):
    play = Play(clients, names, seed)
    rogue = play.fresh()
    for number in range(request.config.getoption("--breaks")):
        broken = play.dice.choice(BREAKS)
        if number % 4 == 0:
            play.honest()
        lives = broken(rogue, play)
        rogue = play.rogue
        if lives:
            assert rogue.alive(), f"seed {seed}, break {number}, {broken.__name__}: closed, {rogue.client.ended}"
        else:
            rogue = play.fresh()
    play.finish()
