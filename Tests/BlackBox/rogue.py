"""A client that may break anything, and is watched for what the server answers; with an honest pair beside it."""

import collections
import random
import time

from google.protobuf.message import DecodeError

import session_pb2
import simpwire as wire
from breaks import broken, paths_of, WAYS
from message_pb2 import TEXT, Attachment, Message
from receipt_pb2 import DELIVERED, Datagrams, MessageState, Outcome, Receipt
from session_pb2 import (
    ERROR_INTERNAL, ERROR_OVERLOADED, ErrorCode, Kick, Login, PathChallenge, PathResponse, Ping, Renew)
from simpclient import Refused, wait_all

CODES = set(ErrorCode.values()) - {ERROR_INTERNAL, session_pb2.ERROR_UNSPECIFIED}
COMMANDS = (wire.PING, wire.MESSAGE, wire.RECEIPT, wire.PATH_CHALLENGE, wire.PATH_RESPONSE, wire.RENEW, wire.KICK)
# A client may not set these: that they are there is the break, and what is not there cannot be left out.
ABSENT = {("from_user",), ("server_time",), ("to_group",)}
# Each field of what a client may say, and each way to break it.
FIELDS = [(command, path, way) for command in (wire.LOGIN, *COMMANDS)
          for path in paths_of(wire.REQUESTS[command].DESCRIPTOR) for way in WAYS
          if not (path in ABSENT and way == "dropped")
          and not (len(wire.REQUESTS[command].DESCRIPTOR.fields) == 1 and way == "moved")]


class Rogue:
    def __init__(self, client, token=""):
        self.client, self.token = client, token
        self.take, client._take = client._take, self.check
        client.retransmits = client.confirms = False
        self.orders = 0
        self.echoes = collections.Counter()  # tokens of pings that were answered by UDP

    def check(self, packet, via):
        """Whatever comes is well-formed, and says something that the document has a word for."""
        if packet.is_error:
            assert via == "tcp", f"an error by UDP: {packet}"
            assert packet.decoded().code in CODES, packet.decoded()
            self.client.responses[packet.command, packet.sequence] = packet
            return
        if packet.command == wire.PING and packet.is_response and via == "udp":
            self.echoes[packet.decoded().token] += 1
        if packet.command == wire.RECEIPT:
            receipt = packet.decoded()
            if receipt.HasField("datagrams"):
                self.client.receipted |= wire.numbers_of(receipt.datagrams)
            for outcome in receipt.outcomes:
                assert via == "tcp" and outcome.state in MessageState.values() and outcome.state != 0, outcome
                assert outcome.code in CODES | {0}, outcome
            return
        self.take(packet, via)

    # -- What a client may say at any time, with every field that it may set

    def sample(self, dice, command, user):
        largest = max(self.client.number - 1, 1)
        match command:
            case wire.PING:
                return Ping(token=dice.randrange(1, 1 << 64))
            case wire.MESSAGE:
                return self.message(user)
            case wire.RECEIPT:
                outcome = Outcome(state=DELIVERED, user=user, device=1, orders=[1, 3, 9, 2], code=ERROR_INTERNAL,
                                  retry_after_ms=10, kept=True)
                return Receipt(datagrams=Datagrams(largest=largest, delay_us=5, runs=[1, 1], gaps=[1], answered=[largest]),
                               outcomes=[outcome], room_messages=100, room_bytes=100_000)
            case wire.PATH_CHALLENGE:
                return PathChallenge(data=dice.randrange(1, 1 << 64), padding=bytes(900))
            case wire.PATH_RESPONSE:
                return PathResponse(data=dice.randrange(1, 1 << 64))
            case wire.RENEW:
                return Renew(token=self.token)
            case wire.KICK:
                return Kick(user=user, reason="no reason")
            case wire.LOGIN:
                return self.login()
        raise ValueError(command)

    def message(self, user, content="grüß"):
        self.orders += 1
        return Message(message_id=self.client.device << 40 | self.orders, time=7, content=content, to_user=user, type=TEXT,
                       order=self.orders, floor=self.orders, image_scale=1.5, image_url="https://example.org/2",
                       custom=b"\x00\xff", attachment=Attachment(
                           url="https://example.org/1", sha256=bytes(32), size=9, mime="a/b", width=1, height=2,
                           duration_ms=3))

    def login(self):
        return Login(token=self.token, protocol_min=1, protocol_max=1, features=1 << 63, outbox_id=9, device_number=1,
                     send_only=True, software="rogue/1", receive_messages=100, receive_bytes=100_000, ciphers=[1, 2])

    # -- What the server owes it all the same

    def alive(self):
        """Everything before it was dealt with; False when the server closed."""
        client = self.client
        client.sequence = client.sequence % 50_000 + 1
        mine = client.sequence
        client.send_packet(wire.packet(wire.PING, Ping(), sequence=mine))
        client.wait(lambda: client.responses.pop((wire.PING, mine), None) or client.closed, 20)
        return not client.closed

    def speaks_by_udp(self, token):
        """A ping is answered; one that the kernel dropped is sent again."""
        end = time.monotonic() + 20
        while not self.echoes[token]:
            assert time.monotonic() < end, f"no answer by UDP; {self.client!r}"
            self.client.send_datagram(ping(token))
            again = time.monotonic() + 0.5
            while not self.echoes[token] and time.monotonic() < again:
                self.client.pump(0.01)


def ping(token):
    return wire.packet(wire.PING, Ping(token=token), flags=wire.WANTED).encoded()


class Play:
    """A rogue, the user it sends to, and an honest pair beside them; counts what was broken."""

    def __init__(self, clients, names, seed):
        self.clients, self.dice = clients, random.Random(seed)
        self.rogue_name, self.visitor, self.target, alice, self.bob = names("rogue", "visitor", "target", "alice", "bob")
        self.a, self.b, self.alice = (*(patiently(lambda: clients.online(user)) for user in (alice, self.bob)), alice)
        self.addressee = Rogue(patiently(lambda: clients.login(self.target)))
        self.sent, self.forbidden = [], set()
        self.made = collections.Counter()
        self.tokens = iter(range(1 << 40, 1 << 41))
        self.rogue = None

    def breaks(self, name, data, good):
        """Counts it, when it is broken indeed."""
        assert data != good, f"{name} breaks nothing"
        self.made[name] += 1
        return data

    def broken(self, rogue, command, path, way):
        """(the packet with that one fault, whether Google's runtime refuses it)"""
        good = rogue.sample(self.dice, command, self.target)
        payload = broken(self.dice, good, path, way)
        self.breaks(field_name(command, path, way), payload, good.SerializeToString())
        try:
            wire.REQUESTS[command].FromString(payload)
            is_refused = False
        except DecodeError:
            is_refused = True
        return wire.Packet(command, payload, 0, self.dice.randrange(55_000, 60_000)), is_refused

    def any(self, rogue):
        """A command and a payload without a fault."""
        command = self.dice.choice((*COMMANDS, wire.MESSAGE, wire.RECEIPT, wire.LOGIN))
        return command, rogue.sample(self.dice, command, self.target)

    def honest(self):
        """One message more, by either channel."""
        self.sent.append(self.a.send(self.bob, f"{len(self.sent)}", by=self.dice.choice([None, None, "tcp"])))
        for each in (self.a, self.b, self.addressee.client):
            each.pump()

    def fresh(self):
        if self.rogue is not None:
            self.leave(self.rogue.client)
        client = patiently(lambda: self.clients.login(self.rogue_name))
        self.rogue = Rogue(client, self.clients.server.token(self.rogue_name))
        client.start_proof()
        client.wait(lambda: client.path_up)
        return self.rogue

    def visit(self):
        """A connection of somebody else, before its login."""
        return Rogue(self.clients.new(self.visitor).connect(), self.clients.server.token(self.visitor))

    def leave(self, client):
        client.close()
        self.clients.all.remove(client)

    def finish(self):
        wait_all([self.a, self.b], lambda: all(each.is_final for each in self.sent), 30)
        # One by UDP and one by TCP may overtake each other; who shows them puts them in order.
        shown = sorted((each for each in self.b.inbox if each.from_user == self.alice), key=lambda each: each.order)
        assert [each.content for each in shown] == [f"{number}" for number in range(len(self.sent))]
        assert all(DELIVERED in each.states for each in self.sent)
        assert not self.a.closed and not self.b.closed
        assert self.addressee.alive()
        assert not self.forbidden & set(self.addressee.client.texts()), "a message out of a broken record"


def patiently(login):
    """A server on a busy machine may put logins off: then a client comes back when it was told to."""
    end = time.monotonic() + 60
    while True:
        try:
            return login()
        except Refused as refused:
            if refused.code != ERROR_OVERLOADED or time.monotonic() > end:
                raise
            time.sleep(refused.retry_after_ms / 1000)


def field_name(command, path, way):
    return f"{wire.REQUESTS[command].DESCRIPTOR.name}.{'.'.join(path)}: {way}"
