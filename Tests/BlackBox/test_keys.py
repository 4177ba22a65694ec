"""Keys of datagrams that change while people talk."""

import random
import re
import tempfile
import time

import pytest

import simpwire as wire
from session_pb2 import Ping
from simpclient import PATIENCE, wait_all
from simpserver import Clients, Server

CLIENT_EVERY, SERVER_EVERY = 10, 10


@pytest.fixture(scope="module")
def quick_server():
    """Changes its key every 10 datagrams, as often as the other side confirms."""
    with tempfile.TemporaryDirectory(prefix="simp-") as state:
        server = Server(state, "--key-phase-packets", SERVER_EVERY).start()
        yield server
        server.clean_up()


@pytest.fixture
def pair(quick_server, names):
    alice, bob = names("alice", "bob")

    def make(cipher):
        ends = [clients.new(user, ciphers=(cipher,)) for user in (alice, bob)]
        for each in ends:
            each.key_phase_packets = CLIENT_EVERY
            each.login()
            each.prove_path()
        return ends

    with Clients(quick_server) as clients:
        yield make


def ping(token):
    return wire.packet(wire.PING, Ping(token=token), sequence=1).encoded()


def talk(a, b, count):
    """Both ways by UDP, a few at a time: keys change on the way."""
    sent = []
    for number in range(count):
        sent += [a.send(b.session.user, f"a{number}"), b.send(a.session.user, f"b{number}")]
        if number % 5 == 4:
            wait_all([a, b], lambda: all(each.is_final for each in sent))
    wait_all([a, b], lambda: all(each.is_final for each in sent))


def talk_until(a, b, count, condition):
    """At least `count` messages each way, and more until the condition holds: who is held up for a moment gets some by
    TCP, which take no datagrams. Says how many."""
    said, end = count, time.monotonic() + 2 * PATIENCE
    talk(a, b, count)
    while not condition():
        assert time.monotonic() < end, (said, a.sealing.number, a.opening.number, b.sealing.number, b.opening.number)
        talk(a, b, 20)
        said += 20
    return said


@pytest.mark.parametrize("cipher", [wire.AES_128_GCM, wire.CHACHA20_POLY1305])
def test_both_directions_change_all_the_time(pair, cipher):
    """The client itself holds the server to the rules: it fails at a change that was not confirmed, or a wrong number."""
    a, b = pair(cipher)
    said = talk_until(a, b, 150, lambda: min(n for each in (a, b) for n in (each.sealing.number, each.opening.number)) >= 3)
    for each in (a, b):
        assert len(each.inbox) == said and "udp" in each.via.values()


def test_loss_and_reordering_across_changes(pair):
    a, b = pair(wire.AES_128_GCM)
    dice = random.Random(7)
    a.loses_outgoing = b.loses_outgoing = lambda number: dice.random() < 0.1
    held = []
    real = a.send_raw

    def late(datagram, udp=None):
        """Every third datagram leaves behind its follower."""
        held.append(datagram)
        if len(held) % 3:
            while held:
                real(held.pop(), udp)

    a.send_raw = late
    said = talk_until(a, b, 100, lambda: a.sealing.number >= 2 and b.opening.number >= 2)
    a.send_raw = real
    assert (len(a.inbox), len(b.inbox)) == (said, said)


def test_a_recording_played_again_across_changes_and_a_new_login(pair, quick_server):
    """Everything that ever left, ten times, shuffled: nothing is answered, nothing is shown twice, nothing moves."""
    a, b = pair(wire.AES_128_GCM)
    recorded = []
    real = a.send_raw
    a.send_raw = lambda datagram, udp=None: (recorded.append(datagram), real(datagram, udp))
    talk_until(a, b, 60, lambda: a.sealing.number >= 2)
    # On a slow machine something was sent again before it was receipted.
    a.quiet(), b.quiet()
    shown = (len(b.inbox), b.duplicates)
    played = recorded * 10
    random.Random(5).shuffle(played)
    for datagram in played:
        real(datagram)
    a.ping_by_udp(9)
    # A new login of the same user: new keys, a new connection id.
    a.close()
    again = quick_server.client(a.session.user, outbox_id=a.outbox_id, device=a.device)
    try:
        again.login()
        again.prove_path()
        again.quiet()
        address, answers, take = again.path_up, [], again._take
        again._take = lambda packet, via: (via == "udp" and answers.append(packet), take(packet, via))
        for datagram in recorded * 10:
            again.send_raw(datagram)
        again.ping_by_udp(10)
        assert again.path_up is address
        pongs = [each for each in answers if each.command == wire.PING]
        assert all(each.is_response and each.decoded().token == 10 for each in pongs), "an answer to a recording"
        assert {each.command for each in answers} <= {wire.PING, wire.RECEIPT}, "an answer to a recording"
    finally:
        again.close()
    b.settle(0.3)
    assert (len(b.inbox), b.duplicates) == shown


def test_a_change_that_was_not_confirmed_is_not_followed(quick_server, names):
    """The very first datagram in the second phase: no datagram of the first was ever receipted."""
    with Clients(quick_server) as clients:
        client = clients.login(*names("alice"))
        answers = []
        real = client._take
        client._take = lambda packet, via: (answers.append(packet), real(packet, via))
        client.send_raw(client.sealing.next().seal(client.session.connection_id, 0, wire.padded_challenge(77)))
        client.number = 1
        client.prove_path()
        client.send_datagram(ping(78))
        client.wait(lambda: 78 in client.pongs)
        proofs = [each.decoded().data for each in answers if each.command == wire.PATH_RESPONSE]
        assert proofs and 77 not in proofs


def found_in_memory(pid, needles):
    """The names of those byte strings that lie anywhere in what a process may write to."""
    found = set()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            begin, end, rights = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line).groups()
            if not rights.startswith("rw"):
                continue
            try:
                memory.seek(int(begin, 16))
                data = memory.read(int(end, 16) - int(begin, 16))
            except OSError:
                continue  # given back meanwhile, or never filled
            found |= {name for name, needle in needles.items() if needle in data}
    return found


def test_no_key_is_left_when_a_session_has_ended(own_server, names):
    """Login secret, keys and IVs of both phases and directions are looked for in the server's memory."""
    pid = own_server.program.process.pid
    needles = {}
    with Clients(own_server) as clients:
        everybody = [clients.online(user) for user in names(*["alice"] * 8)]
        for index, each in enumerate(everybody):
            needles[f"{index} secret"] = each.session.udp_secret
            for way in ("c2s", "s2c"):
                now = wire.Direction(each.session.udp_secret, each.session.cipher, way)
                for phase in (now, now.next()):
                    name = f"{index} {way} {phase.number}"
                    needles |= {f"{name} key": phase.key, f"{name} iv": phase.iv}
                needles[f"{index} {way} next"] = now.next().secret
        # What must be there while they talk: the search can find.
        alive = found_in_memory(pid, needles)
        assert {f"{index} c2s 0 iv" for index in range(8)} | {f"{index} s2c next" for index in range(8)} <= alive
        for each in everybody:
            each.logout()
    lines = own_server.program.err
    own_server.program.wait_for(lambda: sum("session ended" in line for line in list(lines)) >= 8)
    end = time.monotonic() + 20
    while left := found_in_memory(pid, needles):
        assert time.monotonic() < end, f"left in memory: {sorted(left)}"
        time.sleep(0.2)  # the end of the turn that ended the last session
