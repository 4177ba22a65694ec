"""Clients, ours and the one in Python, over a path that loses datagrams or changes its address."""

import random
import time

import pytest

import simpwire as wire
from lossy import Lossy
from session_pb2 import Ping
from simpclient import PATIENCE, finished, wait_all
from simpserver import Clients, until


@pytest.fixture
def behind(server):
    """Python clients behind a lossy path."""
    with Clients(server) as clients:
        def online(lossy, user):
            return clients.online(user, host=lossy.host)
        yield online


def test_the_path_changes_its_address(server, behind, clients, names):
    """An address translator forgets: the server proves the new address, tells it, and messages go on by UDP."""
    alice, bob = names("alice", "bob")
    with Lossy(server) as lossy:
        a, b = clients.online(alice), behind(lossy, bob)
        for turn in range(4):
            old, b.path_up = b.path_up.port, None
            lossy.rebind()
            there = [b.send(alice, f"from bob {turn} {number} " + "x" * 300, by="udp") for number in range(3)]
            wait_all([a, b], lambda: b.path_up)
            assert b.path_up.port != old
            wait_all([a, b], lambda: server.endpoints(bob)[b.device]["udp"] == f"127.0.0.1:{b.path_up.port}")
            before, end = lossy.passed["s2c"], time.monotonic() + PATIENCE
            # Who is held up for a moment gets some by TCP.
            while True:
                back = a.send(bob, f"to bob {turn}")
                wait_all([a, b], lambda: back.is_final and all(each.is_final for each in there))
                if b.via[alice, back.message.message_id] == "udp":
                    break
                assert time.monotonic() < end, "nothing came by UDP to the new address"
            assert lossy.passed["s2c"] > before
        assert len(a.inbox) == 12 and len(b.inbox) == len(a.outbox)


def arrived(socket):
    """The datagrams that lie in a socket."""
    socket.setblocking(False)
    datagrams = []
    try:
        while True:
            datagrams.append(socket.recv(65536))
    except BlockingIOError:
        return datagrams


def test_an_old_address_is_asked_once_and_gets_nothing_else(server, behind, clients, names):
    alice, bob = names("alice", "bob")
    with Lossy(server) as lossy:
        a, b = clients.online(alice), behind(lossy, bob)
        old = next(iter(lossy._outer.values()))
        b.path_up = None
        lossy.rebind()
        b.send_challenge()
        wait_all([a, b], lambda: b.path_up)
        # Whether the client is still there: as long as the new address is not proven, it may be a forger's.
        asked = [[each.command for each in wire.packets_of(b._open(datagram)[1])] for datagram in arrived(old)]
        # Nor is an answer to a challenge of before, which was still under way.
        assert [each for each in asked if each != [wire.PATH_RESPONSE]] == [[wire.PATH_CHALLENGE]]
        for number in range(10):
            a.send(bob, f"{number}")
        wait_all([a, b], lambda: len(b.inbox) == 10)
        assert arrived(old) == []


@pytest.mark.parametrize("seed", [1, 2])
def test_everything_between_two_python_clients_where_a_fifth_is_lost(server, behind, names, seed):
    alice, bob = names("alice", "bob")
    dice = random.Random(seed)
    with Lossy(server, lambda way, datagram: dice.random() < 0.2) as lossy:
        a, b = behind(lossy, alice), behind(lossy, bob)
        sent = [a.send(bob, f"{number}") for number in range(100)]
        wait_all([a, b], lambda: all(each.is_final for each in sent), timeout=30)
        assert sorted(b.texts(), key=int) == [f"{number}" for number in range(100)]
        assert lossy.lost["c2s"] > 5, lossy.lost
        assert b.request(wire.PING, Ping(token=1)).token == 1


def test_simp_proves_its_path_though_its_answers_are_lost(server, simp, clients, names):
    """The server's challenge is answered again until PATH_UP came."""
    alice, bob = names("alice", "bob")
    left, is_challenged = [3], [False]

    def loses(way, datagram):
        """What the client says first once the server's challenge is there, alone in its datagram or not."""
        if way == "s2c":
            is_challenged[0] = True
        elif is_challenged[0] and left[0]:
            left[0] -= 1
            return True
        return False

    with Lossy(server, loses) as lossy:
        program = simp(bob, "listen", "-n", "1", host=lossy.host)
        until(lambda: any(each["udp"] != "-" for each in server.endpoints(bob).values()))
        assert left == [0]
        a = clients.online(alice)
        a.send(bob, "hello")
        assert finished(program, [a]) == 0, program.text
        assert program.out == ["hello"]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_text_through_simp_where_a_fifth_is_lost(server, simp, names, seed):
    alice, bob = names("alice", "bob")
    dice = random.Random(seed)
    lines = [f"{number} {'x' * dice.randrange(80)}" for number in range(600)]
    with Lossy(server, lambda way, datagram: dice.random() < 0.2) as lossy:
        end = time.monotonic() + 2 * PATIENCE
        # Datagrams are filled, so they are few, and before the path is proven there are none: again until some were lost.
        while True:
            listening = simp(bob, "listen", "-n", str(len(lines)), host=lossy.host)
            until(lambda: server.endpoints(bob))
            sending = simp(alice, "send", bob, text="\n".join(lines) + "\n", host=lossy.host)
            assert sending.finish(60) == 0, sending.text
            assert listening.finish(60) == 0, listening.text
            assert listening.out == lines
            if min(lossy.lost.values()) > 0:
                break
            assert time.monotonic() < end, lossy.lost
            until(lambda: not server.endpoints(bob))


def test_a_text_through_simp_while_the_address_changes(server, simp, names):
    alice, bob = names("alice", "bob")
    lines = [f"{number}" for number in range(400)]
    with Lossy(server) as lossy:
        listening = simp(bob, "listen", "-n", str(len(lines)), host=lossy.host)
        until(lambda: server.endpoints(bob))
        for start in range(0, len(lines), 100):
            sending = simp(alice, "send", bob, text="\n".join(lines[start : start + 100]) + "\n", host=lossy.host)
            lossy.rebind()
            assert sending.finish(60) == 0, sending.text
        assert listening.finish(60) == 0, listening.text
        assert listening.out == lines


def test_a_text_through_simp_without_udp(server, simp, names):
    alice, bob = names("alice", "bob")
    lines = [f"{number}" for number in range(600)]
    with Lossy(server, lambda way, datagram: True) as lossy:
        listening = simp(bob, "listen", "-n", str(len(lines)), host=lossy.host)
        until(lambda: server.endpoints(bob))
        sending = simp(alice, "send", bob, text="\n".join(lines) + "\n", host=lossy.host)
        assert sending.finish(60) == 0, sending.text
        assert listening.finish(60) == 0, listening.text
        assert listening.out == lines and lossy.passed == {"c2s": 0, "s2c": 0}
