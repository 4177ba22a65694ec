"""What becomes of messages behind STORED: their senders are told DELIVERED, be it later, until they say it back."""

import os
import re
import signal

import pytest

import simpwire as wire
from receipt_pb2 import DELIVERED, EXPIRED, STORED, Outcome, Receipt
from simpclient import wait_all
from simpserver import Clients, Server, until

MARKS = "simp:marks:{u:%s}"
MARKED = list(range(1, 21))


def kept(client, user, state=DELIVERED):
    """Orders towards the user that the client was told as kept."""
    return sorted(order for each in client.outcomes if each.kept and each.user == user and each.state == state
                  for order in wire.orders_of(each))


def is_stored(sent):
    return lambda: all(STORED in each.states for each in sent)


def store(client, user, count=20):
    """Messages for somebody who is away."""
    sent = [client.send(user, f"{number}") for number in range(count)]
    client.wait(is_stored(sent))
    return sent


def silent(clients, user):
    """Somebody who confirms nothing."""
    client = clients.new(user)
    client.confirms = False
    client.login()
    client.prove_path()
    return client


def take(clients, user, server, count=20):
    """Somebody logs in, takes what is there, and leaves."""
    client = clients.online(user)
    client.wait(lambda: len(client.inbox) == count)
    client.wait(lambda: server.redis("XLEN", "simp:inbox:{u:%s}" % user) == 0)
    client.logout()
    client.close()


def hear_and_say_back(client, user, server):
    client.wait(lambda: kept(client, user) == MARKED)
    client.wait(lambda: not server.redis("EXISTS", MARKS % client.session.user))


def again(clients, before, **options):
    """The same device, with what it knows of its messages."""
    client = clients.new(before.session.user, outbox_id=before.outbox_id, device=before.device, **options)
    client.outbox, client.orders, client.counter = before.outbox, before.orders, before.counter
    client.login()
    return client


@pytest.fixture
def stored(clients, names):
    """A sender whose messages wait for somebody who was here once."""
    alice, bob = names("alice", "bob")
    clients.login(bob).logout()
    a = clients.online(alice)
    return a, bob, store(a, bob)


def test_a_sender_who_is_there_hears_it_at_once(stored, clients, server):
    alice, bob, sent = stored
    assert not kept(alice, bob)
    b = silent(clients, bob)
    wait_all([alice, b], lambda: len(b.inbox) == 20)
    # What nobody said is not told.
    assert not kept(alice, bob) and not server.redis("EXISTS", MARKS % alice.session.user)
    for message in b.inbox:
        b.send_outcome(DELIVERED, message)
    wait_all([alice, b], lambda: kept(alice, bob) == MARKED)
    assert all(each.states[-1] == DELIVERED and STORED in each.states for each in sent)
    hear_and_say_back(alice, bob, server)


def test_many_senders_on_all_reactors_hear_it(tmp_path, names):
    bob, *users = names("bob", *["sender"] * 6)
    server = Server(tmp_path, "--reactors", "2").start()
    try:
        with Clients(server) as clients:
            clients.login(bob).logout()
            # Every other one only sends: nobody finds it under its name.
            senders = [clients.login(user, send_only=index % 2 == 1) for index, user in enumerate(users)]
            # The first byte of a connection id is the reactor.
            assert {sender.session.connection_id >> 40 for sender in senders} == {0, 1}
            for sender in senders:
                store(sender, bob)
            b = clients.online(bob)
            wait_all([b, *senders], lambda: all(kept(sender, bob) == MARKED for sender in senders))
    finally:
        server.clean_up()


def test_one_who_was_away_hears_it_at_the_next_login_and_once(stored, clients, server):
    alice, bob, _ = stored
    alice.logout()
    take(clients, bob, server)
    second = again(clients, alice)
    hear_and_say_back(second, bob, server)
    second.logout()
    third = again(clients, alice)
    # The marks are read before anything the session sends is answered by the store.
    store(third, bob, 1)
    assert not kept(third, bob)


def test_a_session_that_only_sends_hears_it_at_its_login(stored, clients, server):
    alice, bob, _ = stored
    alice.logout()
    take(clients, bob, server)
    hear_and_say_back(again(clients, alice, send_only=True), bob, server)


def test_what_is_not_said_back_comes_again(stored, clients, server):
    alice, bob, _ = stored
    alice.logout()
    take(clients, bob, server)
    second = clients.new(alice.session.user, outbox_id=alice.outbox_id, device=alice.device)
    second.says_back = False
    second.login()
    second.wait(lambda: kept(second, bob) == MARKED)
    # Half of it.
    second.send_packet(wire.packet(
        wire.RECEIPT, Receipt(outcomes=[Outcome(state=DELIVERED, user=bob, orders=[1, 10], kept=True)])))
    until(lambda: server.redis("HVALS", MARKS % alice.session.user) == ["11-20"])
    second.logout()
    third = again(clients, alice)
    third.wait(lambda: kept(third, bob) == MARKED[10:])


def test_another_device_of_the_sender_hears_nothing_of_it(stored, clients, server):
    alice, bob, _ = stored
    alice.logout()
    take(clients, bob, server)
    other = clients.login(alice.session.user)
    assert other.device != alice.device
    # Nor can it say anything back for the first.
    other.send_packet(wire.packet(
        wire.RECEIPT, Receipt(outcomes=[Outcome(state=DELIVERED, user=bob, orders=[1, 20], kept=True)])))
    store(other, bob, 1)
    assert not kept(other, bob)
    assert server.redis("HVALS", MARKS % alice.session.user) == ["1-20"]
    other.logout()
    hear_and_say_back(again(clients, alice), bob, server)


def test_a_client_that_did_not_ask_hears_nothing_and_ends_nothing(stored, clients, server):
    alice, bob, _ = stored
    alice.logout()
    take(clients, bob, server)
    old = clients.new(alice.session.user, outbox_id=alice.outbox_id, device=alice.device)
    old.features = 0
    assert old.login().features == 0
    old.send_packet(wire.packet(
        wire.RECEIPT, Receipt(outcomes=[Outcome(state=DELIVERED, user=bob, orders=[1, 20], kept=True)])))
    # It goes on as before: what it says after that is taken.
    old.orders[bob] = 20
    store(old, bob, 1)
    assert not kept(old, bob) and server.redis("HVALS", MARKS % alice.session.user) == ["1-20"]
    old.logout()
    hear_and_say_back(again(clients, alice), bob, server)


def test_nobody_says_back_what_was_never_said(clients, names):
    alice, bob = names("alice", "bob")
    client = clients.login(alice)
    for state, orders in ((DELIVERED, [1, 1 << 39]), (DELIVERED, [(1 << 64) - 1, 1]), (STORED, [1, 1])):
        for device in (0, 1, client.device, (1 << 32) - 1):
            client.send_packet(wire.packet(wire.RECEIPT, Receipt(outcomes=[
                Outcome(state=state, user=bob, device=device, orders=orders, kept=True)])))
    store(client, bob, 1)


def test_the_server_is_killed_in_between(own_server, names):
    alice, bob = names("alice", "bob")
    with Clients(own_server) as clients:
        clients.login(bob).logout()
        a = clients.online(alice)
        store(a, bob)
        a.close()
        b = clients.online(bob)
        b.wait(lambda: own_server.redis("EXISTS", MARKS % alice))
        own_server.stop(signal.SIGKILL)
        own_server.start()
        # What of bob's confirmations came too late comes to him again.
        b.close()
        b = again(clients, b)
        second = again(clients, a)
        wait_all([b, second], lambda: set(kept(second, bob)) == set(MARKED))
        wait_all([b, second], lambda: not own_server.redis("EXISTS", MARKS % alice))


def test_a_store_that_stands_still_tells_it_later(own_server, names):
    alice, bob = names("alice", "bob")
    with Clients(own_server) as clients:
        clients.login(bob).logout()
        a = clients.online(alice)
        store(a, bob)
        b = silent(clients, bob)
        b.wait(lambda: len(b.inbox) == 20)
        pid = int(re.search(r"process_id:(\d+)", own_server.redis("INFO", "server")).group(1))
        os.kill(pid, signal.SIGSTOP)
        try:
            for message in b.inbox:
                b.send_outcome(DELIVERED, message)
            program = own_server.program
            wait_all([a, b], lambda: any("inbox not confirmed" in line for line in program.out + program.err))
        finally:
            os.kill(pid, signal.SIGCONT)
        wait_all([a, b], lambda: kept(a, bob) == MARKED)


def test_a_full_store_lets_messages_out_without_their_marks(own_server, names):
    alice, bob = names("alice", "bob")
    with Clients(own_server) as clients:
        clients.login(bob).logout()
        a = clients.online(alice)
        store(a, bob)
        a.logout()
        own_server.redis("CONFIG", "SET", "maxmemory", "1")
        take(clients, bob, own_server)
        assert not own_server.redis("EXISTS", MARKS % alice)
        own_server.redis("CONFIG", "SET", "maxmemory", "0")


def test_simp_send_waits_until_lines_are_delivered(clients, names, simp, server):
    alice, bob = names("alice", "bob")
    clients.login(bob).logout()
    program = simp(alice, "send", "--wait", "delivered", "--verbose", bob, text="1\n2\n3\n")
    until(lambda: server.redis("XLEN", "simp:inbox:{u:%s}" % bob) == 3)
    assert program.process.poll() is None
    b = clients.online(bob)
    b.wait(lambda: len(b.inbox) == 3 and program.process.poll() is not None)
    assert program.finish() == 0, program.text
    assert "3 of 3 lines delivered" in program.text
    assert len(re.findall(r"sent id=\d+ delivered .*: .*stored after .*, delivered after", program.text)) == 3


def test_simp_send_tells_what_is_stored_and_not_delivered_in_time(clients, names, simp):
    alice, bob = names("alice", "bob")
    clients.login(bob).logout()
    program = simp(alice, "send", "--wait", "delivered", "--timeout", "2s", bob, text="1\n2\n")
    assert program.finish() == 5, program.text
    assert "not delivered: 2 of 2 lines (1-2)" in program.text and f"{bob} is not there" in program.text
    # As without the flag: stored is enough.
    program = simp(alice, "send", "--wait", "stored", bob, text="3\n")
    assert program.finish() == 0, program.text
    assert "1 stored for later" in program.text


# -- What nobody takes in time


@pytest.fixture
def brief(tmp_path):
    """A server that keeps messages for three seconds."""
    server = Server(tmp_path, "--inbox-lifetime", "3s").start()
    yield server
    server.clean_up()


@pytest.mark.parametrize("is_there", [True, False])
def test_what_nobody_takes_in_time_is_over_and_its_sender_hears_it(brief, names, is_there):
    alice, bob = names("alice", "bob")
    with Clients(brief) as clients:
        clients.login(bob).logout()
        a = clients.online(alice)
        store(a, bob)
        if not is_there:
            a.close()
        until(lambda: brief.redis("XLEN", "simp:inbox:{u:%s}" % bob) == 0)
        a = a if is_there else again(clients, a)
        a.wait(lambda: kept(a, bob, EXPIRED) == MARKED)
        assert not kept(a, bob)
        a.wait(lambda: not brief.redis("EXISTS", MARKS % alice))
        # Nothing of it is left, and what comes later arrives.
        b = clients.online(bob)
        sent = a.send(bob, "later")
        wait_all([a, b], lambda: sent.is_final)
        b.settle(0.2)
        assert b.texts() == ["later"]
        assert brief.redis("ZCARD", "simp:expiry") == 0


def test_nothing_is_over_for_somebody_who_is_here(brief, names):
    alice, bob = names("alice", "bob")
    with Clients(brief) as clients:
        clients.login(bob).logout()
        a = clients.online(alice)
        store(a, bob)
        b = silent(clients, bob)
        wait_all([a, b], lambda: len(b.inbox) == 20)
        # Somebody else's is: so their time has come as well.
        carol = a.send("carol-" + bob, "x")
        wait_all([a, b], lambda: STORED in carol.states)
        wait_all([a, b], lambda: kept(a, "carol-" + bob, EXPIRED) == [1])
        assert not kept(a, bob, EXPIRED)
        for message in list(b.inbox):
            b.send_outcome(DELIVERED, message)
        wait_all([a, b], lambda: kept(a, bob) == MARKED)
        assert not kept(a, bob, EXPIRED)
