"""Mutated packets and datagrams, from a fixed seed: the server answers, closes or keeps silent, and lives."""

import random

import pytest

import golden
import simpwire as wire
from session_pb2 import Ping
from simpclient import wait_all

MESSAGES = list(golden.read("messages.txt").values())
PACKETS = list(golden.read("packets.txt").values())
COMMANDS = [(1, number) for number in range(1, 9)] + [(2, 1), (3, 1), (4, 1), (9, 9)]


def mutated(dice, data):
    """Bytes changed, cut, doubled or put in."""
    data = bytearray(data)
    for _ in range(dice.choice([1, 1, 2, 5])):
        place = dice.randrange(len(data) + 1)
        match dice.randrange(5):
            case 0 if place < len(data):
                data[place] ^= 1 << dice.randrange(8)
            case 1 if place < len(data):
                data[place] = dice.choice([0, 1, 127, 128, 255])
            case 2:
                del data[place : place + dice.randrange(1, 9)]
            case 3:
                data[place:place] = dice.randbytes(dice.randrange(1, 9))
            case 4:
                data[place:place] = data[place : place + dice.randrange(1, 40)]
    return bytes(data)


def payloads(dice, client):
    """A whole packet around a mutated payload, sometimes with the device number of the session in front."""
    while True:
        payload = mutated(dice, dice.choice(MESSAGES))
        if dice.random() < 0.5:  # the last value wins
            mine = type(golden.HELLO)(message_id=client.device << 40 | dice.randrange(1, 99), to_user="nobody", order=1,
                                      floor=1)
            payload += mine.SerializeToString()
        flags = dice.choice([0, 0, 0, 4, 1, 3])
        yield wire.Packet(dice.choice(COMMANDS), payload, flags, dice.randrange(1 << 16))


class Careless:
    """A client that does not read what it gets."""

    def __init__(self, client):
        self.client = client
        client._take = lambda packet, via: self.note(packet)
        self.pong = False

    def note(self, packet):
        if packet.command == wire.PING and packet.is_response and packet.sequence == 4242:
            self.pong = True

    def alive(self):
        """False when the server closed; asserts that it answers otherwise."""
        client = self.client
        self.pong = False
        client.send_packet(wire.packet(wire.PING, Ping(), sequence=4242))
        client.wait(lambda: self.pong or client.closed)
        return self.pong


@pytest.mark.parametrize("seed", range(4))
def test_mutated_payloads_on_tcp(clients, names, seed):
    dice = random.Random(seed)
    (alice,) = names("alice")
    sent = 0
    while sent < 3000:
        careless = Careless(clients.login(alice))
        for packet in payloads(dice, careless.client):
            if packet.command == wire.LOGOUT:
                continue
            careless.client.send_packet(packet)
            sent += 1
            if sent % 50 == 0 and not careless.alive() or sent >= 3000:
                break
        careless.client.close()


@pytest.mark.parametrize("seed", range(4))
def test_mutated_streams_before_and_after_login(clients, names, seed):
    dice = random.Random(seed)
    (alice,) = names("alice")
    for _ in range(150):
        client = clients.new(alice).connect()
        if dice.random() < 0.7:
            client.login()
        careless = Careless(client)
        client.send_bytes(mutated(dice, b"".join(dice.sample(PACKETS, 4))))
        careless.client.settle(0.001)
        client.close()


@pytest.mark.parametrize("seed", range(4))
def test_mutated_packets_in_authentic_datagrams(clients, names, seed):
    dice = random.Random(seed)
    alice, bob = names("alice", "bob")
    a, b = clients.online(alice), clients.online(bob)
    a.retransmits = False
    take, a._take = a._take, lambda packet, via: None
    made = payloads(dice, a)
    for number in range(3000):
        if dice.random() < 0.5:
            plain = b"".join(next(made).encoded() for _ in range(dice.randrange(1, 4)))
        else:
            plain = mutated(dice, b"".join(dice.sample(PACKETS, dice.randrange(1, 4))))
        a.send_datagram(plain[: wire.DATAGRAM_BYTES - 32])
        if number % 50 == 0:
            a.pump()
    a.pump(0.1)
    assert not a.closed
    a._take, a.retransmits = take, True
    a.orders[bob] = 0
    sent = a.send(bob, "through")
    wait_all([a, b], lambda: sent.is_final)
    assert b.texts(alice)[-1] == "through"


@pytest.mark.parametrize("seed", range(2))
def test_mutated_datagrams(clients, names, seed):
    dice = random.Random(seed)
    a = clients.online(*names("alice"))
    a.quiet()
    count = len(a.datagrams_in)
    for number in range(3000):
        good = a.sealing.seal(a.session.connection_id, a.number + number, dice.choice(PACKETS))
        if (bad := mutated(dice, good)) != good:
            a.send_raw(bad)
        if number % 100 == 0:
            a.pump()
    a.settle(0.2)
    answers = len(a.datagrams_in) - count
    assert answers == 0
    a.number += 5000
    a.ping_by_udp(5)
