"""What the server does with datagrams that it should not trust. Silence is shown by what is not there when the answer
to a later, good datagram has come."""

import random
import socket
import time

import pytest

import simpwire as wire
from message_pb2 import Message
from receipt_pb2 import ACCEPTED, Receipt
from session_pb2 import ERROR_MALFORMED, PathResponse, Ping
from simpclient import PATIENCE, wait_all
from simpserver import HOST


@pytest.fixture
def alice(clients, names):
    client = clients.online(*names("alice"))
    client.quiet()
    return client


def ping(number, flags=0):
    return wire.packet(wire.PING, Ping(token=number), sequence=number, flags=flags).encoded()


def silence(client, *datagrams, seconds=0.2):
    """Sends raw datagrams and sees that no answer comes; that a good one is answered afterwards shows that they were
    read."""
    other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    other.bind((HOST, 0))
    other.settimeout(seconds)
    before = len(client.datagrams_in)
    for datagram in datagrams:
        client.send_raw(datagram)  # from the proven address
        client.send_raw(datagram, other)  # from another
    client.settle(seconds)
    assert len(client.datagrams_in) == before, "an answer to what must not be answered"
    with pytest.raises(TimeoutError):
        other.recvfrom(65536)
    other.close()
    lives(client)


def lives(client, number=[1000]):
    number[0] += 1
    client.ping_by_udp(number[0])
    assert client.request(wire.PING, Ping(token=8)).token == 8


def sealed(client, plain, number=None, **changes):
    """A datagram to be sent later, or more than once."""
    if number is None:
        number, client.number = client.number, client.number + 1
    client.sent_datagrams.setdefault(number, (time.monotonic(), []))
    return client.sealing.seal(client.session.connection_id, number, plain, **changes)


def test_unknown_connection_ids(alice):
    good = sealed(alice, ping(1))
    wrong = [bytearray(good) for _ in range(6)]
    for position, each in zip(range(2, 8), wrong):
        each[position] ^= 1
    cid = alice.session.connection_id
    other = alice.sealing.seal((cid + 1) % (1 << 48), alice.number + 5, ping(1))
    silence(alice, *map(bytes, wrong), other)


def test_every_other_kind_meets_silence(alice):
    """Authentic under the session's keys, but for the first byte: no kind is answered that does not exist."""
    silence(alice, *(sealed(alice, ping(1), kind=first) for first in range(256) if first != 1))


@pytest.mark.parametrize("phase", [1, 2, 3, 128, 255])
def test_wrong_key_phases(alice, phase):
    """Bits that do not exist, and the next phase's bit over the present key."""
    silence(alice, sealed(alice, ping(1), phase=phase))


def test_bad_tags(alice):
    good = sealed(alice, ping(1))
    damaged = []
    for position in range(8, len(good)):
        each = bytearray(good)
        each[position] ^= 0x40
        damaged.append(bytes(each))
    silence(alice, *damaged, good[:-1], good + b"\0", good[:16] + bytes(len(good) - 16))


def test_lengths(alice):
    good = sealed(alice, ping(1))
    silence(alice, b"", *(good[:length] for length in range(1, 33)), bytes(1200), good + bytes(5000), bytes(65_000))


def test_an_empty_sealed_datagram_is_not_a_crash(alice):
    alice.send_raw(sealed(alice, b""))
    lives(alice)


def test_replay(alice):
    """A copy has no effect: no second answer, no second message, no move of the path."""
    alice.send_datagram(ping(5), number=alice.number)
    number, alice.number = alice.number, alice.number + 1
    alice.wait(lambda: 5 in alice.pongs)
    alice.quiet()
    again = sealed(alice, ping(5), number=number)
    silence(alice, *[again] * 10)


def test_replayed_messages_are_delivered_once(clients, names):
    alice, bob = names("alice", "bob")
    a, b = clients.online(alice), clients.online(bob)
    recorded = []
    real = a.send_raw
    a.send_raw = lambda datagram, udp=None: (recorded.append(datagram), real(datagram, udp))
    sent = [a.send(bob, f"{number}") for number in range(20)]
    wait_all([a, b], lambda: all(each.is_final for each in sent))
    # On a slow machine something was sent again before it was receipted.
    a.quiet(), b.quiet()
    duplicates = b.duplicates
    shuffled = recorded * 10
    random.Random(5).shuffle(shuffled)
    for datagram in shuffled:
        real(datagram)
    lives(a)
    b.settle(0.3)
    assert (len(b.inbox), b.duplicates) == (20, duplicates)
    assert b.request(wire.PING, Ping(token=2)).token == 2


def test_old_numbers_within_and_beyond_the_window(alice):
    early = sealed(alice, ping(60))
    ancient = sealed(alice, ping(61))
    alice.number += 900
    lives(alice)
    alice.send_raw(early)  # reordered by 900: still good
    alice.wait(lambda: 60 in alice.pongs)
    alice.number += 100_000
    lives(alice)
    alice.quiet()
    silence(alice, ancient)


def test_the_servers_own_datagrams_sent_back(alice):
    lives(alice)
    alice.quiet()
    silence(alice, *[datagram for datagram, _ in alice.datagrams_in])


def test_keys_of_another_session(alice, clients, names):
    other = clients.online(*names("mallory"))
    cid = alice.session.connection_id
    silence(alice, *(other.sealing.seal(cid, alice.number + number, ping(1)) for number in range(50)))


def test_another_session_cannot_speak_for_this_one(alice, clients, names):
    """Authentic under mallory's keys and id, with alice's device number inside."""
    mallory, bob = names("mallory", "bob")
    m, b = clients.online(mallory), clients.online(bob)
    forged = Message(message_id=alice.device + 5 << 40 | 1, to_user=bob, content="x", order=1, floor=1)
    m.send_datagram(wire.packet(wire.MESSAGE, forged, flags=wire.WANTED).encoded())
    m.settle(0.4)
    assert not b.inbox and not any(ACCEPTED in each.states for each in m.outbox.values())
    b.settle(0.2)
    assert not b.inbox


BROKEN = {
    "half a header": ping(1)[:9],
    "length beyond the datagram": wire.Packet(wire.PING).encoded(length=17),
    "length under 16": wire.Packet(wire.PING).encoded(length=15),
    "length 0xFFFFFFFF": wire.Packet(wire.PING).encoded(length=0xFFFFFFFF),
    "version": wire.Packet(wire.PING).encoded(version=2),
    "reserved": wire.Packet(wire.PING).encoded(reserved=1),
    "unknown flag": wire.Packet(wire.PING, b"", 8).encoded(),
    "a byte behind the last packet": ping(70) + b"\0",
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_packet_drops_the_rest_of_its_datagram_only(alice, case):
    alice.send_datagram(ping(31) + BROKEN[case] + ping(32))
    alice.wait(lambda: 31 in alice.pongs)
    lives(alice)
    assert 32 not in alice.pongs


OUT_OF_PLACE = {
    "unknown command": wire.Packet((9, 9), b"abc", 0, 5).encoded(),
    "LOGIN": wire.Packet(wire.LOGIN, b"", 0, 5).encoded(),
    "LOGOUT": wire.Packet(wire.LOGOUT, b"", 0, 5).encoded(),
    "ENDED": wire.Packet(wire.ENDED, b"", 0, 5).encoded(),
    "corrupt PING": wire.Packet(wire.PING, b"\xff", 0, 5).encoded(),
    "corrupt MESSAGE": wire.Packet(wire.MESSAGE, b"\xff", 0, 5).encoded(),
    "corrupt RECEIPT": wire.Packet(wire.RECEIPT, b"\xff", 0, 5).encoded(),
    "corrupt PATH_CHALLENGE": wire.Packet(wire.PATH_CHALLENGE, b"\xff", 0, 5).encoded(),
    "PATH_RESPONSE to nothing": wire.packet(wire.PATH_RESPONSE, PathResponse(data=5)).encoded(),
    "outcomes": wire.packet(wire.RECEIPT, Receipt(outcomes=[dict(state=4, user="x", orders=[1, 1])])).encoded(),
}


@pytest.mark.parametrize("case", OUT_OF_PLACE)
def test_a_packet_that_has_no_place_in_a_datagram_is_skipped(alice, case):
    alice.send_datagram(OUT_OF_PLACE[case] + ping(33))
    alice.wait(lambda: 33 in alice.pongs)
    assert not alice.closed and not alice.errors
    lives(alice)


# -- Amplification


def collected(client, seconds):
    client.settle(seconds)
    return sum(len(datagram) for datagram, _ in client.datagrams_in)


@pytest.mark.parametrize("total", [60, 100, 400, 1200])
def test_an_unproven_address_gets_at_most_three_times_what_it_sent(clients, names, total):
    """Mute clients: they challenge, and never answer the server's own challenge. Meanwhile messages wait for them."""
    alice, bob = names("alice", "bob")
    victim, writer = clients.login(alice), clients.online(bob)
    victim.answers_challenges = victim.receipts = False
    victim.send_challenge(total)
    for number in range(40):
        writer.send(alice, "x" * 500)
    end = time.monotonic() + 4  # several probe timeouts
    while time.monotonic() < end:
        writer.pump(0.01), victim.pump(0.01)
    received = sum(len(datagram) for datagram, _ in victim.datagrams_in)
    assert received <= 3 * total, (received, total)
    assert victim.path_up is None
    wait_all([victim, writer], lambda: len(victim.inbox) == 40)  # by TCP
    assert set(victim.via.values()) == {"tcp"}


def test_requests_from_an_unproven_address_do_not_get_more(clients, names):
    client = clients.login(*names("alice"))
    client.answers_challenges = client.receipts = False
    sent = 0
    for number in range(50):
        client.send_datagram(ping(number, wire.WANTED))
        sent += 57
    assert collected(client, 1.0) <= 3 * sent


def test_challenges_pile_up_no_answers(alice):
    """One answer for each challenge that comes, however many."""
    alice.settle(0.2)
    before = len(alice.datagrams_in)
    for _ in range(300):
        alice.send_challenge(100)
    alice.settle(0.5)
    sent = 300 * 100
    assert sum(len(datagram) for datagram, _ in alice.datagrams_in[before:]) <= max(3 * sent, 0)
    lives(alice)


def test_another_address_is_limited_until_it_is_proven(alice):
    """Authentic datagrams from a new address: it gets at most three times what it sent, and the session goes on."""
    alice.answers_challenges = False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((HOST, 0))
        other.setblocking(False)
        sent = received = 0
        for number in range(200, 210):
            alice.send_datagram(ping(number, wire.WANTED), udp=other)
            sent += 57
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            alice.pump(0.01)
            try:
                while True:
                    received += len(other.recv(65536))
            except BlockingIOError:
                pass
        assert received <= 3 * sent, (received, sent)
    alice.answers_challenges = True
    assert alice.request(wire.PING, Ping(token=4)).token == 4
    lives(alice)


def test_who_receipts_a_number_that_was_left_out_is_not_believed(alice):
    """The server leaves numbers out: a receipt of all that it may have sent is no receipt."""
    token, missing, end = 5000, set(), time.monotonic() + PATIENCE
    # Answers share datagrams, the more of them the busier the machine is.
    while token < 5400 or not missing:
        assert time.monotonic() < end, "no number was left out"
        alice.send_datagram(ping(token))
        if token % 8 == 7:
            alice.wait(lambda: token in alice.pongs)
            missing = set(range(max(alice.received))) - alice.received
        token += 1
    largest, runs, gaps = wire.ranges_of(alice.received)
    honest, false = (
        Receipt(datagrams=dict(largest=largest, runs=runs, gaps=gaps)),
        Receipt(datagrams=dict(largest=largest, runs=[largest + 1])))
    alice.send_packet(wire.packet(wire.RECEIPT, honest))
    assert alice.request(wire.PING, Ping(token=4)).token == 4 and not alice.errors
    alice.send_packet(wire.packet(wire.RECEIPT, false))
    alice.wait(lambda: alice.errors)
    assert alice.errors[0].code == ERROR_MALFORMED
    lives(alice)


def test_a_challenge_of_a_path_that_is_up_brings_path_up_again(alice):
    """Its path may have been down for the client alone: nothing else tells it that no more proofs are needed."""
    before, alice.path_up = alice.path_up, None
    alice.prove_path()
    assert alice.path_up == before
    lives(alice)


def test_junk_does_not_disturb_others(alice, clients, names):
    bob = clients.online(*names("bob"))
    dice = random.Random(3)
    cid = alice.session.connection_id.to_bytes(6, "big")
    for _ in range(20_000):
        junk = bytes([1, 0]) + cid + dice.randbytes(dice.choice([8, 24, 40, 200]))
        alice.send_raw(junk)
    sent = alice.send(bob.session.user, "through")
    wait_all([alice, bob], lambda: sent.is_final)
    assert bob.texts() == ["through"]
    lives(alice)
