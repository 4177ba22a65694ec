"""Messages for who is away, or falls behind: STORED, and out of the inbox in order, once."""

import os
import re
import signal
import subprocess
import tempfile

import pytest

from receipt_pb2 import ACCEPTED, DELIVERED, LATER, STORED
from session_pb2 import ERROR_NO_ROOM, ERROR_NOT_ONLINE, ERROR_UNAVAILABLE
from simpclient import PATIENCE, wait_all
from simpserver import Clients, Program, Server, free_port, until

INBOX = "simp:inbox:{u:%s}"


def all_in(state, sent):
    return lambda: all(each.state() == state for each in sent)


def texts(numbers):
    return [f"{number}" for number in numbers]


def silent(clients, user):
    """A client that confirms nothing."""
    client = clients.new(user)
    client.confirms = False
    client.login()
    client.prove_path()
    return client


@pytest.fixture
def away(clients, names):
    """A sender, and somebody who was here once."""
    alice, bob = names("alice", "bob")
    clients.login(bob).logout()
    return clients.online(alice), bob


def test_what_is_for_somebody_away_is_stored_and_waits_for_him(away, clients, server):
    alice, bob = away
    sent = [alice.send(bob, f"{number}", by="tcp" if number % 7 == 0 else None) for number in range(60)]
    wait_all([alice], all_in(STORED, sent))
    # ACCEPTED may have come before it, and nothing else.
    assert all(set(each.states) <= {ACCEPTED, STORED} for each in sent)
    assert server.redis("XLEN", INBOX % bob) == 60
    alice.close()
    b = clients.online(bob)
    b.wait(lambda: len(b.inbox) == 60)
    assert b.texts() == texts(range(60))
    assert {each.from_user for each in b.inbox} == {alice.session.user} and all(each.server_time for each in b.inbox)
    assert [each.order for each in b.inbox] == list(range(1, 61))
    b.wait(lambda: server.redis("XLEN", INBOX % bob) == 0)
    b.wait(lambda: server.endpoints(bob)[b.device]["state"] == "live")


def test_after_that_messages_go_to_him_again(away, clients, server):
    alice, bob = away
    wait_all([alice], all_in(STORED, [alice.send(bob, "0")]))
    b = clients.online(bob)
    b.wait(lambda: b.inbox and server.endpoints(bob)[b.device]["state"] == "live")
    sent = alice.send(bob, "1")
    wait_all([alice, b], lambda: sent.is_final)
    assert sent.state() == DELIVERED and b.texts() == ["0", "1"]


def test_what_he_has_not_confirmed_comes_again_with_the_next_login(away, clients):
    alice, bob = away
    sent = [alice.send(bob, f"{number}") for number in range(20)]
    wait_all([alice], all_in(STORED, sent))
    first = silent(clients, bob)
    first.wait(lambda: len(first.inbox) == 20)
    for message in first.inbox[:7]:
        first.send_outcome(DELIVERED, message)
    first.logout()
    second = clients.online(bob)
    second.wait(lambda: len(second.inbox) == 13)
    second.settle(0.3)
    assert second.texts() == texts(range(7, 20))


def test_what_he_gives_back_comes_again_before_what_follows_it(away, clients, server):
    alice, bob = away
    # What follows has a floor above what is given back: its sender counts that as finished.
    for batch in (range(40), range(40, 300)):
        sent = [alice.send(bob, f"{number}") for number in batch]
        wait_all([alice], all_in(STORED, sent))
    b = clients.new(bob, room=(40, 1 << 20))
    b.confirms = False
    b.login()
    b.wait(lambda: len(b.inbox) == 40)
    given_back = b.inbox[20]
    # Room for the next read, and while that is under way, or just answered, one of the first read goes back.
    for message in b.inbox[:20] + b.inbox[21:]:
        b.send_outcome(DELIVERED, message)
    b.send_outcome(LATER, given_back)
    b.seen[given_back.from_user, given_back.message_id >> 40].discard(given_back.order)
    before = len(b.inbox)
    b.confirms = True
    b.wait(lambda: given_back.order in [each.order for each in b.inbox[before:]])
    # It is confirmed from here on; what came before it and was not confirmed then comes with the next login at the latest.
    for message in list(b.inbox):
        b.send_outcome(DELIVERED, message)
    b.wait(lambda: len({each.order for each in b.inbox}) == 300)
    again = next(each for each in b.inbox[before:] if each.order == given_back.order)
    assert again.floor <= given_back.order
    first_after = b.inbox.index(again)
    # Nothing that was read after it was given back has a floor above it.
    assert all(each.floor <= given_back.order for each in b.inbox[before:first_after])
    b.wait(lambda: server.redis("XLEN", INBOX % bob) == 0)
    b.wait(lambda: server.endpoints(bob)[b.device]["state"] == "live")


def test_the_floor_is_never_above_what_he_does_not_have(away, clients):
    """To its sender what is stored is finished, and its floor passes it; its recipient has to wait for it."""
    alice, bob = away
    for number in range(10):
        sent = alice.send(bob, f"{number}")
        wait_all([alice], lambda: sent.is_final)
        assert sent.message.floor == number + 1
    b = silent(clients, bob)
    b.wait(lambda: len(b.inbox) == 10)
    assert {each.floor for each in b.inbox} == {1}


def test_a_copy_of_what_is_stored_is_stored_already(away, clients, server):
    alice, bob = away
    sent = alice.send(bob, "once")
    wait_all([alice], lambda: sent.is_final)
    # It comes back not knowing that.
    alice.close()
    alice.connect()
    alice.login()
    sent.states.clear()
    alice.transmit([sent], by="tcp")
    wait_all([alice], lambda: sent.is_final)
    assert sent.state() == STORED and server.redis("XLEN", INBOX % bob) == 1
    b = clients.online(bob)
    b.wait(lambda: b.inbox)
    b.settle(0.3)
    assert b.texts() == ["once"]


def test_what_overtook_waits_for_what_it_overtook(away, clients):
    alice, bob = away
    alice.retransmits = False
    first, *others = [alice.compose(bob, f"{number}") for number in range(5)]
    alice.transmit(others, by="udp")
    alice.settle(0.3)
    assert not [each for each in others if STORED in each.states]
    alice.transmit([first], by="udp")
    wait_all([alice], all_in(STORED, [first, *others]))
    b = clients.online(bob)
    b.wait(lambda: len(b.inbox) == 5)
    assert b.texts() == texts(range(5))


def test_what_waits_in_vain_goes_back(away):
    alice, bob = away
    alice.retransmits = False
    _, *others = [alice.compose(bob, f"{number}") for number in range(5)]
    alice.transmit(others, by="udp")
    wait_all([alice], all_in(LATER, others))


def test_who_has_no_room_gets_the_rest_out_of_his_inbox(clients, names, server):
    alice, bob = names("alice", "bob")
    a, b = clients.online(alice), clients.online(bob, room=(5, 1 << 20))
    b.wait(lambda: server.endpoints(bob)[b.device]["state"] == "live")
    b.confirms = False
    sent = [a.send(bob, f"{number}") for number in range(30)]
    wait_all([a, b], lambda: sum(each.state() == STORED for each in sent) == 25 and len(b.inbox) == 5)
    assert server.endpoints(bob)[b.device]["state"] == "catching"
    # What he has in hand stands in front of what he has no room for.
    assert server.redis("XLEN", INBOX % bob) == 30
    b.settle(0.3)
    assert len(b.inbox) == 5
    b.confirms = True
    for message in list(b.inbox):
        b.send_outcome(DELIVERED, message)
    wait_all([a, b], lambda: len(b.inbox) == 30 and all(each.is_final for each in sent))
    assert b.texts() == texts(range(30))
    assert [STORED in each.states for each in sent] == [False] * 5 + [True] * 25
    b.wait(lambda: server.endpoints(bob)[b.device]["state"] == "live")


@pytest.mark.parametrize("confirmed", [0, 3])
def test_who_had_no_room_and_comes_back_gets_all_in_order(clients, names, server, confirmed):
    """Not first what there was no room for, and behind it what he had in hand; and not what he had confirmed."""
    alice, bob = names("alice", "bob")
    a, b = clients.online(alice), clients.online(bob, room=(5, 1 << 20))
    b.wait(lambda: server.endpoints(bob)[b.device]["state"] == "live")
    b.confirms = False
    sent = [a.send(bob, f"{number}") for number in range(30)]
    wait_all([a, b], lambda: sum(each.state() == STORED for each in sent) == 25 and len(b.inbox) == 5)
    for message in b.inbox[:confirmed]:
        b.send_outcome(DELIVERED, message)
    wait_all([a, b], lambda: sum(each.is_final for each in sent) == 25 + confirmed)
    b.close()
    again = clients.online(bob)
    wait_all([a, again], lambda: len(again.inbox) == 30 - confirmed and all(each.is_final for each in sent))
    assert again.texts() == texts(range(confirmed, 30))
    again.wait(lambda: server.redis("XLEN", INBOX % bob) == 0)
    again.settle(0.2)
    assert len(again.inbox) == 30 - confirmed


def test_who_never_logged_in_has_a_small_inbox(clients, names):
    alice, nobody = names("alice", "nobody")
    a = clients.online(alice)
    a.retransmits = False
    sent = [a.send(nobody, f"{number}", by="tcp") for number in range(110)]
    wait_all([a], lambda: all(each.state() in (STORED, LATER) for each in sent))
    assert [each.state() for each in sent] == [STORED] * 100 + [LATER] * 10
    assert {each.code for each in sent[100:]} == {ERROR_NO_ROOM}


def test_a_user_leaves_so_much_with_strangers_in_a_day(tmp_path, names):
    """Names cost nothing, and each has an inbox."""
    alice, bob, *nobody = names("alice", "bob", *(f"nobody{number}" for number in range(30)))
    server = Server(tmp_path, "--inbox-stranger-bytes", "10000").start()
    try:
        with Clients(server) as clients:
            clients.login(bob).logout()
            a = clients.online(alice)
            a.retransmits = False
            for index, name in enumerate(nobody):
                sent = a.send(name, "x" * 900, by="tcp")
                wait_all([a], lambda: sent.state() in (STORED, LATER))
                assert sent.state() == (STORED if index < 10 else LATER)
            assert sent.code == ERROR_NO_ROOM
            known = a.send(bob, "x" * 900, by="tcp")
            wait_all([a], lambda: known.is_final)
            assert known.state() == STORED
    finally:
        server.clean_up()


def test_the_memory_of_the_embedded_redis_is_bounded(tmp_path):
    """Also of one that another server left behind."""
    server = Server(tmp_path, "--redis-memory", "50000000").start()
    try:
        assert server.redis("CONFIG", "GET", "maxmemory")[1] == "50000000"
        server.stop(signal.SIGKILL)
        server = Server(tmp_path, "--redis-memory", "60000000").start()
        until(lambda: server.redis("CONFIG", "GET", "maxmemory")[1] == "60000000")
    finally:
        server.clean_up()


def test_what_is_stored_outlives_the_server(own_server, names):
    alice, bob = names("alice", "bob")
    with Clients(own_server) as clients:
        a, b = clients.online(alice), clients.online(bob)
        until_live(own_server, b, bob)
        b.close()
        sent = [a.send(bob, f"{number}") for number in range(20)]
        wait_all([a], lambda: all(STORED in each.states for each in sent))
        own_server.stop(signal.SIGKILL)
        own_server.start()
        c = clients.online(bob)
        c.wait(lambda: len(c.inbox) == 20)
        assert c.texts() == texts(range(20))


def test_who_was_here_when_the_server_was_killed_is_away(own_server, names):
    """His endpoint stands there as live, of a server that is no more: the next one in its place knows that."""
    alice, bob = names("alice", "bob")
    with Clients(own_server) as clients:
        b = clients.online(bob)
        until_live(own_server, b, bob)
        own_server.stop(signal.SIGKILL)
        own_server.start()
        # Long before it would be over by itself, which takes 15 s.
        until(lambda: own_server.redis("EXISTS", f"simp:node:{b.session.node}") == 0, 5)
        a = clients.online(alice)
        sent = a.send(bob, "hello")
        wait_all([a], lambda: sent.is_final)
        assert sent.states[-1] == STORED
        assert own_server.endpoints(bob)[b.device]["state"] == "catching"


def test_who_is_at_another_server_that_died_is_away_when_its_name_is_over(own_server, names):
    alice, bob = names("alice", "bob")
    with Clients(own_server) as clients:
        b = clients.online(bob)
        until_live(own_server, b, bob)
        b.logout()
        own_server.redis("SET", "simp:node:another", "here")
        own_server.redis("HSET", "simp:endpoints:{u:%s}" % bob, b.device, "epoch=99 node=another state=live")
        a = clients.online(alice)
        sent = a.send(bob, "hello")
        wait_all([a], lambda: LATER in sent.states)
        assert sent.code == ERROR_NOT_ONLINE
        own_server.redis("DEL", "simp:node:another")
        wait_all([a], lambda: STORED in sent.states)


def test_redis_away(own_server, names):
    alice, bob, carol = names("alice", "bob", "carol")
    with Clients(own_server) as clients:
        a, b = clients.online(alice), clients.online(bob)
        until_live(own_server, b, bob)
        pid = int(re.search(r"process_id:(\d+)", own_server.redis("INFO", "server")).group(1))
        os.kill(pid, signal.SIGSTOP)
        try:
            # Who is here gets messages as ever; who is not, not now.
            there, away = a.send(bob, "here"), a.send(carol, "away")
            wait_all([a, b], lambda: there.is_final and LATER in away.states)
            assert there.state() == DELIVERED and away.code == ERROR_UNAVAILABLE
        finally:
            os.kill(pid, signal.SIGCONT)
        wait_all([a, b], lambda: away.is_final, 2 * PATIENCE)
        assert away.state() == STORED
        c = clients.online(carol)
        c.wait(lambda: c.inbox)
        assert c.texts() == ["away"]


def test_a_full_redis_lets_people_in_and_what_is_theirs_out(own_server, names):
    alice, bob = names("alice", "bob")
    with Clients(own_server) as clients:
        clients.login(bob).logout()
        a = clients.online(alice)
        sent = [a.send(bob, f"{number}") for number in range(5)]
        wait_all([a], all_in(STORED, sent))
        own_server.redis("CONFIG", "SET", "maxmemory", "1")
        b = clients.online(bob)
        b.wait(lambda: len(b.inbox) == 5)
        until_live(own_server, b, bob)
        assert own_server.redis("XLEN", INBOX % bob) == 0
        live = a.send(bob, "live")
        wait_all([a, b], lambda: live.is_final)
        assert live.state() == DELIVERED and b.texts() == [*texts(range(5)), "live"]


@pytest.mark.parametrize("settings", [(), ("--inbox-messages", "0")])
def test_a_redis_that_takes_no_writes(settings, tmp_path, names):
    """Who was here before is let in, and nobody waits in the dark for what the store does not take."""
    alice, bob = names("alice", "bob")
    server = Server(tmp_path, *settings).start()
    try:
        with Clients(server) as clients:
            before = clients.login(bob)
            before.logout()
            a = clients.online(alice)
            server.redis("CONFIG", "SET", "min-replicas-to-write", "1")
            b = clients.new(bob, outbox_id=before.outbox_id, device=before.device)
            b.login()
            sent = a.send(bob, "hello")
            if settings:
                wait_all([a, b], lambda: sent.is_final)
                assert sent.states[-1] == DELIVERED
            else:
                wait_all([a, b], lambda: LATER in sent.states)
                assert sent.code == ERROR_UNAVAILABLE
            server.redis("CONFIG", "SET", "min-replicas-to-write", "0")
            wait_all([a, b], lambda: sent.is_final and b.inbox)
            assert sent.state() in (DELIVERED, STORED) and b.texts() == ["hello"]
            until_live(server, b, bob)
            again = a.send(bob, "again")
            wait_all([a, b], lambda: again.is_final)
            assert again.state() == DELIVERED and b.texts() == ["hello", "again"]
    finally:
        server.clean_up()


def until_live(server, client, user):
    client.wait(lambda: server.endpoints(user).get(client.device, {}).get("state") == "live")


@pytest.fixture
def external():
    """Starts a Redis of the test's own, and a server that uses it."""
    with tempfile.TemporaryDirectory(prefix="simp-") as state:
        started = []

        def start(*settings, redis=()):
            port = free_port()
            program = Program(["redis-server", "--port", port, "--dir", state, "--bind", "127.0.0.1", *redis])
            started.append(program)
            program.wait_for(lambda: any("Ready to accept" in line for line in program.out))
            server = Server(state, *settings, redis=f"127.0.0.1:{port}").start()
            started.append(server.program)
            return server

        yield start
        for program in reversed(started):
            program.stop()


@pytest.mark.parametrize("redis,settings,state", [
    ((), (), LATER),
    (("--appendonly", "yes"), (), LATER),
    (("--appendonly", "yes", "--appendfsync", "always"), (), STORED),
    ((), ("--stored-means", "memory"), STORED),
])
def test_stored_is_said_of_what_is_on_the_disk(external, names, redis, settings, state):
    server = external(*settings, redis=redis)
    alice, bob = names("alice", "bob")
    with Clients(server) as clients:
        a = clients.online(alice)
        sent = a.send(bob, "hello")
        wait_all([a], lambda: sent.states and sent.states[-1] in (LATER, STORED))
        assert sent.state() == state
        if state == LATER:
            assert sent.code == ERROR_NOT_ONLINE
    text = server.program.text
    assert ("messages for who is away are refused" in text) == (state == LATER)
    assert ("may be lost with redis" in text) == bool(settings)


def test_a_full_redis_refuses_and_nothing_is_lost(external, names):
    server = external(redis=("--appendonly", "yes", "--appendfsync", "always"))
    alice, bob = names("alice", "bob")
    host, port = server.where.split(":")
    ask = lambda *words: subprocess.run(
        ["redis-cli", "-h", host, "-p", port, *words], check=True, capture_output=True, text=True, timeout=PATIENCE).stdout
    with Clients(server) as clients:
        a = clients.online(alice)
        ask("CONFIG", "SET", "maxmemory", "1")
        sent = a.send(bob, "hello")
        wait_all([a], lambda: LATER in sent.states)
        assert sent.code == ERROR_UNAVAILABLE
        ask("CONFIG", "SET", "maxmemory", "0")
        wait_all([a], lambda: sent.is_final)
        assert sent.state() == STORED
