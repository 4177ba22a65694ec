"""What one peer may cost the server: each limit met, with the word that it gets, and what it does not do to others."""

import pathlib
import signal
import socket
import tempfile
import threading
import time

import pytest

import simptls
import simpwire as wire
from receipt_pb2 import DELIVERED, LATER, REJECTED
from session_pb2 import (
    ERROR_NO_ROOM, ERROR_OVERLOADED, ERROR_RATE_LIMITED, ERROR_TOO_LARGE,
    ERROR_TOO_MANY_CONNECTIONS, Ping,
)
from simpclient import PATIENCE, Refused, wait_all
from simpserver import HOST, Clients, Server, until



@pytest.fixture
def limited():
    """Starts a server with these settings; gives it and clients of it."""
    with tempfile.TemporaryDirectory(prefix="simp-") as state:
        started = []

        def start(*settings):
            server = Server(state, *settings).start()
            started.extend((server, Clients(server)))
            return started

        yield start
        if started:
            server, clients = started
            clients.__exit__()
            assert server.program.process.poll() is None, f"simp-server died\n{server.program.text[-4000:]}"
            server.clean_up()


def refusal(client):
    with pytest.raises(Refused) as raised:
        client.login(timeout=PATIENCE)
    client.wait(lambda: client.closed, PATIENCE)
    return raised.value


def is_alive(client):
    return client.request(wire.PING, Ping(token=5), PATIENCE).token == 5


def closes(raw):
    """Whether the server closes this connection without a byte."""
    raw.settimeout(PATIENCE)
    try:
        return raw.recv(1) == b""
    except ConnectionResetError:
        return True


def ends(raw):
    """Whether the server ends this connection, whatever it says before."""
    raw.settimeout(PATIENCE)
    try:
        while raw.recv(4096):
            pass
        return True
    except ConnectionResetError:
        return True


def connect(server):
    return socket.create_connection((HOST, server.port))


@pytest.fixture
def counted(names):
    """What the server counts, from an administrator's session."""
    admins = {}

    def read(server, clients):
        if server not in admins:
            (name,) = names("root")
            admin = admins[server] = clients.new(name)
            admin.token = server.token(name, simp="admin")
            admin.login(timeout=PATIENCE)
        reply = admins[server].request(wire.COUNTERS, Ping(), PATIENCE)
        return {each.name: each.value for each in reply.counters}

    return read


# -- Connections


@pytest.mark.parametrize("setting", ["--connections-per-address", "--connections"])
def test_connections_beyond_the_limit_are_refused_and_the_others_live(limited, names, setting):
    server, clients = limited(setting, "3")
    inside = [clients.login(*names("inside")) for _ in range(3)]
    refused = refusal(clients.new(*names("outside")))
    assert refused.code == ERROR_TOO_MANY_CONNECTIONS and refused.retry_after_ms >= 1000
    # Those who do not even ask are told nothing, from some number on.
    raw = [connect(server) for _ in range(80)]
    assert closes(raw[-1])
    assert all(is_alive(each) for each in inside)
    for each in raw:
        each.close()
    inside.pop().logout()
    # As soon as one goes, another may come.
    end = time.monotonic() + PATIENCE
    while True:
        try:
            late = clients.new(*names("late"))
            late.login(timeout=PATIENCE)
            break
        except (Refused, ConnectionError, OSError):
            assert time.monotonic() < end, server.program.text[-2000:]
            late.close()
            time.sleep(0.05)
    assert is_alive(late)


def test_of_those_who_do_not_log_in_the_oldest_goes(limited, names):
    server, clients = limited("--connections-waiting", "8", "--login-time", "600s")
    alice = clients.login(*names("alice"))
    idle = [connect(server) for _ in range(8)]
    for _ in range(4):
        # Each comes and goes, while eight hold on to their places.
        bob = clients.login(*names("bob"))
        assert is_alive(bob)
    assert closes(idle[0])
    more = [connect(server) for _ in range(40)]
    assert all(closes(each) for each in idle[1:] + more[:32])
    assert is_alive(alice) and is_alive(bob)
    for each in idle + more:
        each.close()


def test_of_those_who_shook_hands_and_do_not_log_in_the_oldest_goes_too(limited, names):
    server, clients = limited("--connections-waiting", "8", "--login-time", "600s")
    alice = clients.login(*names("alice"))
    idle = [simptls.wrap(connect(server), server.pin) for _ in range(8)]
    for _ in range(4):
        bob = clients.login(*names("bob"))
        assert is_alive(bob)
    assert ends(idle[0])
    more = [simptls.wrap(connect(server), server.pin) for _ in range(24)]
    assert all(ends(each) for each in idle[1:] + more[:16])
    assert is_alive(alice) and is_alive(bob)
    for each in idle + more:
        each.close()


def test_too_slow_a_login_ends_with_its_time_also_inside_the_handshake(limited, counted):
    """Nothing, half a hello byte by byte, a hello and no more, no login, a login byte by byte: the same end."""
    server, clients = limited("--login-time", "10s")
    hello = simptls.hello()
    silent, dripping, half = (connect(server) for _ in range(3))
    still, slow = (simptls.wrap(connect(server), server.pin) for _ in range(2))
    half.sendall(hello)
    began = time.monotonic()
    # One that says it is longer than what comes of it.
    login = (4000).to_bytes(4, "big") + wire.packet(wire.LOGIN, Ping()).encoded()[4:16] + bytes(4000)
    open_ones, sent = {"silent": silent, "dripping": dripping, "half": half, "still": still, "slow": slow}, 0
    for raw in open_ones.values():
        raw.setblocking(False)
    heard = dict.fromkeys(open_ones, b"")
    while open_ones:
        assert time.monotonic() < began + PATIENCE, open_ones.keys()
        for name, raw in list(open_ones.items()):
            try:
                if name == "dripping":
                    raw.send(hello[sent:sent + 1])
                if name == "slow":
                    raw.send(login[3 + sent:4 + sent] if sent else login[:4])
                data = raw.recv(4096)
                heard[name] += data
                if not data:
                    del open_ones[name]
            except (BlockingIOError, simptls.ssl.SSLWantReadError):
                pass
            except OSError:
                del open_ones[name]
        sent = min(sent + 1, len(hello) - 2)
        time.sleep(0.1)
    assert time.monotonic() - began > 1
    assert heard["silent"] == heard["dripping"] == b""
    assert counted(server, clients)["simp_logins_timed_out_total"] == 5


def test_the_time_to_log_in_begins_at_the_door(limited):
    """Who shakes hands late has no more time: it goes before one that came after it and shook hands before it."""
    # As much time for the handshake of the first as for looking whether the second is still there.
    server, _ = limited("--login-time", "14s")
    first = connect(server)
    time.sleep(7)
    second = simptls.wrap(connect(server), server.pin)
    first = simptls.wrap(first, server.pin)
    assert ends(first)
    second.settimeout(0.01)
    with pytest.raises((TimeoutError, simptls.ssl.SSLWantReadError)):
        assert second.recv(4096), "both ended together"
    assert ends(second)
    first.close()
    second.close()


def test_who_takes_connections_yields_to_who_carries_messages(limited):
    server, _ = limited()
    tasks = pathlib.Path(f"/proc/{server.program.process.pid}/task")

    def niceness():
        found = {}
        for task in tasks.iterdir():
            try:
                name, stat = (task / "comm").read_text().strip(), (task / "stat").read_text()
            except OSError:
                continue  # a thread that just ended
            found[name] = int(stat.rsplit(")", 1)[1].split()[16])
        return found

    def yields():
        found = niceness()
        own = found.get("simp-reactor-0")
        return own is not None and found.get("simp-acceptor") == min(own + 10, 19)

    # Each thread takes its niceness itself, as the first thing it does: on a busy machine after the server is ready.
    try:
        until(yields)
    except AssertionError:
        raise AssertionError(niceness()) from None


def test_more_handshakes_than_a_second_has_wait_their_turn(limited, names):
    server, clients = limited("--handshakes-per-second", "2")
    began = time.monotonic()
    # Two at once, then two a second: the last of six comes after two seconds at the earliest.
    for _ in range(6):
        assert is_alive(clients.login(*names("alice")))
    assert time.monotonic() - began > 1.5


def test_who_went_while_he_waited_costs_no_handshake(limited, names):
    server, clients = limited("--handshakes-per-second", "1", "--login-time", "20s")
    hello = simptls.hello()
    for _ in range(60):
        with connect(server) as raw:
            raw.sendall(hello)
    # At one a second his time would be over before his turn.
    assert is_alive(clients.login(*names("alice")))


# -- Logins


def test_more_logins_than_a_second_has_are_told_when_to_come_back(limited, names):
    server, clients = limited("--logins-per-second", "1")
    inside = clients.login(*names("inside"))
    refused = []
    end = time.monotonic() + PATIENCE
    while not refused:
        client = clients.new(*names("more"))
        try:
            client.login(timeout=PATIENCE)
        except Refused as each:
            refused.append(each)
        assert time.monotonic() < end
    assert refused[0].code == ERROR_OVERLOADED and refused[0].retry_after_ms >= 1000
    assert is_alive(inside)
    # Who obeys gets in.
    _comes_in(clients, names)


def _comes_in(clients, names):
    end = time.monotonic() + PATIENCE
    while True:
        client = clients.new(*names("patient"))
        try:
            client.login(timeout=PATIENCE)
            return client
        except Refused as refused:
            assert refused.code == ERROR_OVERLOADED and time.monotonic() < end
            client.close()
            time.sleep(refused.retry_after_ms / 1000)


def test_a_loop_that_comes_late_refuses_logins_before_those_inside_wait(limited, names):
    server, clients = limited("--overload-lag", "250ms")
    inside = clients.online(*names("inside"))
    refused, end = None, time.monotonic() + PATIENCE
    while refused is None:
        # The loop is kept from running, as by too much work.
        server.program.process.send_signal(signal.SIGSTOP)
        time.sleep(0.6)
        server.program.process.send_signal(signal.SIGCONT)
        try:
            clients.new(*names("outside")).login(timeout=PATIENCE)
        except Refused as each:
            refused = each
        assert time.monotonic() < end
    assert refused.code == ERROR_OVERLOADED and refused.retry_after_ms >= 1000
    assert is_alive(inside)
    _comes_in(clients, names)


def test_refused_logins_do_not_fill_the_log(limited, names):
    server, clients = limited()
    for _ in range(60):
        with clients.new(*names("alice")) as client:
            client.token = "no.token.atall"
            refusal(client)
    lines = [line for line in server.program.err if "login refused" in line]
    assert 0 < len(lines) < 60
    until(lambda: sum("connection ended" in line for line in server.program.err) == 60, PATIENCE)
    assert not any("session ended" in line for line in server.program.err)


# -- Messages


@pytest.mark.parametrize("road", ["udp", "tcp"])
def test_over_its_rate_a_user_is_told_later_and_nothing_is_lost(limited, names, road):
    server, clients = limited("--messages-per-second", "10")
    (alice_name, bob_name) = names("alice", "bob")
    alice, bob = clients.online(alice_name), clients.online(bob_name)
    sent = [alice.compose(bob_name, f"{number}") for number in range(40)]
    for each in sent:
        alice.transmit([each], by=road)
    wait_all([alice, bob], lambda: all(each.state() == DELIVERED for each in sent), 2 * PATIENCE)
    assert [each.content for each in sorted(bob.inbox, key=lambda each: each.order)] == [str(n) for n in range(40)]
    told = [each for each in alice.outcomes if each.code == ERROR_RATE_LIMITED]
    assert told and all(each.state == LATER and each.retry_after_ms > 0 for each in told)
    # A burst of two seconds passes.
    assert all(LATER not in each.states for each in sent[:20])


@pytest.mark.parametrize("reactors", [1, 2])
def test_the_rate_is_the_users_and_not_the_sessions(limited, names, reactors):
    server, clients = limited("--messages-per-second", "10", "--reactors", str(reactors))
    alice, bob, carol = names("alice", "bob", "carol")
    receiver = clients.login(bob)
    senders = [clients.login(alice, send_only=True) for _ in range(4)]
    other = clients.login(carol)
    for each in senders:
        each.retransmits = False
        for number in range(10):
            each.send(bob, f"{number}")
    wait_all([*senders, receiver], lambda: all(all(m.states for m in each.outbox.values()) for each in senders), PATIENCE)
    limited_ones = sum(m.code == ERROR_RATE_LIMITED for each in senders for m in each.outbox.values())
    assert limited_ones >= 5
    mine = other.send(bob, "not hers")
    wait_all([other, receiver], lambda: mine.state() == DELIVERED, PATIENCE)


def test_bytes_count_too(limited, names):
    server, clients = limited("--bytes-per-second", "1000")
    alice_name, bob_name = names("alice", "bob")
    alice, bob = clients.login(alice_name), clients.login(bob_name)
    alice.retransmits = False
    # The burst is one packet of the largest size.
    messages = [alice.send(bob_name, "x" * 100_000) for _ in range(3)]
    wait_all([alice, bob], lambda: messages[1].state() == DELIVERED and messages[2].states, PATIENCE)
    assert messages[2].state() == LATER and messages[2].code == ERROR_RATE_LIMITED


def test_the_window_in_force_is_told_and_a_message_beyond_its_size_rejected(limited, names, counted):
    server, clients = limited("--window-messages", "77", "--window-bytes", "300000", "--message-bytes", "1000")
    alice_name, bob_name = names("alice", "bob")
    alice, bob = clients.login(alice_name), clients.login(bob_name)
    assert (alice.session.window_messages, alice.session.window_bytes) == (77, 300_000)
    large, fine = alice.send(bob_name, "x" * 1000), alice.send(bob_name, "x" * 800)
    wait_all([alice, bob], lambda: fine.state() == DELIVERED and large.is_final, PATIENCE)
    assert large.state() == REJECTED and large.code == ERROR_TOO_LARGE
    assert counted(server, clients)["simp_messages_too_large_total"] == 1


@pytest.mark.parametrize("reactors", [1, 2])
def test_who_ignores_the_window_is_told_later_at_twice_of_it(limited, names, counted, reactors):
    server, clients = limited("--window-messages", "8", "--reactors", str(reactors))
    alice_name, *others = names("alice", "bob", "carol", "dan")
    alice = clients.login(alice_name)
    recipients = [clients.login(each) for each in others]
    for each in recipients:
        each.confirms = False
    alice.retransmits = False
    sent = [alice.send(name, f"{number}") for number in range(7) for name in others]
    wait_all([alice, *recipients], lambda: all(each.states for each in sent), PATIENCE)
    late = [each for each in sent if each.state() == LATER]
    assert len(late) == 5 and {each.code for each in late} == {ERROR_NO_ROOM}
    # The first of each conversation; what follows it waits behind it.
    assert counted(server, clients)["simp_messages_window_full_total"] == len(recipients)
    # Copies of what is held take no room of it, and outcomes give it back: all arrive, round after round.
    alice.retransmits = True
    for each in recipients:
        each.confirms = True
        for message in list(each.inbox):
            each.send_outcome(DELIVERED, message)
    wait_all([alice, *recipients], lambda: all(each.state() == DELIVERED for each in sent), 2 * PATIENCE)
    more = [alice.send(name, f"{number}") for number in range(7, 40) for name in others]
    wait_all([alice, *recipients], lambda: all(each.state() == DELIVERED for each in more), 2 * PATIENCE)
    assert all(each.texts() == [f"{number}" for number in range(40)] for each in recipients)


def test_so_much_is_held_for_one_recipient_and_no_more(limited, names, counted):
    server, clients = limited("--pending-messages", "8", "--inbox-messages", "0")
    alice_name, bob_name = names("alice", "bob")
    alice, bob = clients.login(alice_name), clients.login(bob_name)
    bob.confirms = alice.retransmits = False
    sent = [alice.send(bob_name, f"{number}") for number in range(20)]
    wait_all([alice, bob], lambda: all(each.states for each in sent), PATIENCE)
    assert [each.state() == LATER for each in sent] == [False] * 8 + [True] * 12
    assert {each.code for each in sent[8:]} == {ERROR_NO_ROOM}
    assert counted(server, clients)["simp_messages_pending_full_total"] >= 1
    # With room again they all arrive.
    bob.confirms = alice.retransmits = True
    for message in list(bob.inbox):
        bob.send_outcome(DELIVERED, message)
    wait_all([alice, bob], lambda: all(each.state() == DELIVERED for each in sent), 2 * PATIENCE)
    assert bob.texts() == [f"{number}" for number in range(20)]


def test_so_much_is_held_for_all_together_and_no_more(limited, names):
    server, clients = limited("--held-bytes", "262144", "--inbox-messages", "0")
    alice_name, *others = names("alice", "bob", "carol", "dan")
    alice = clients.login(alice_name)
    recipients = [clients.login(each) for each in others]
    for each in recipients:
        each.confirms = False
    alice.retransmits = False
    sent = []
    for name in others:
        sent.append(alice.send(name, "x" * 100_000))
        wait_all([alice, *recipients], lambda: sent[-1].states, PATIENCE)
    assert [each.state() == LATER for each in sent] == [False, False, True] and sent[2].code == ERROR_NO_ROOM
    # One recipient goes, and what was held for it is given back.
    recipients[0].logout()
    alice.retransmits = recipients[2].confirms = True
    wait_all([alice, *recipients[1:]], lambda: sent[2].state() == DELIVERED, PATIENCE)


def test_who_does_not_read_is_sent_away(limited, names):
    server, clients = limited("--unsent-bytes", "262144")
    alice, bob = clients.login(*names("alice")), clients.login(*names("bob"))
    pings = wire.packet(wire.PING, Ping(token=1 << 60), sequence=1).encoded() * 4096
    stop = threading.Event()

    def flood():
        alice.tcp.settimeout(PATIENCE)
        try:
            while not stop.is_set():
                alice.tcp.sendall(pings)
        except OSError:
            pass

    flooder = threading.Thread(target=flood)
    flooder.start()
    try:
        server.program.wait_for(
            lambda: any("session ended" in line and "wait to be read" in line for line in server.program.err), PATIENCE)
    finally:
        stop.set()
        flooder.join(2 * PATIENCE)
    assert is_alive(bob)


# -- The network


def test_that_a_port_is_unreachable_ends_no_session_and_no_path(limited, names):
    """The kernel gets an ICMP message for each datagram; anybody could send one."""
    server, clients = limited()
    names_of = names("alice", "bob", "carol")
    alice, bob, carol = (clients.online(each) for each in names_of)
    alice.udp.close()
    alice.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    alice.udp.bind((HOST, 0))
    alice.udp.setblocking(False)
    alice.receipts = False
    to_alice = [bob.send(names_of[0], f"{number}") for number in range(5)]
    to_carol = [bob.send(names_of[2], f"{number}") for number in range(5)]
    everyone = [alice, bob, carol]
    wait_all(everyone, lambda: all(each.state() == DELIVERED for each in to_alice + to_carol), PATIENCE)
    assert alice.texts() == carol.texts() == [f"{number}" for number in range(5)]
    assert {carol.via[key] for key in carol.via} == {"udp"}
    assert all(is_alive(each) and each.ended is None for each in everyone)


def test_datagrams_that_are_dropped_are_counted_by_reason(limited, names, counted):
    server, clients = limited()
    alice = clients.online(*names("alice"))
    before = counted(server, clients)
    cid, number = alice.session.connection_id, alice.number + 10
    good = alice.sealing.seal(cid, number, wire.packet(wire.PING, Ping(token=1), sequence=1).encoded())
    bad = bytearray(alice.sealing.seal(cid, number + 1, bytes(40)))
    bad[-1] ^= 1
    stranger = bytes([1, 0]) + bytes(6) + good[8:]
    for datagram, times in ((good, 4), (bytes(bad), 5), (stranger, 6)):
        for _ in range(times):
            alice.send_raw(datagram)
    expected = {"replayed": 3, "forged": 5, "strangers": 6}

    def grown():
        now = counted(server, clients)
        names = {reason: f"simp_datagrams_{reason}_total" for reason in (*expected, "received", "sent")}
        return {reason: now[name] - before[name] for reason, name in names.items()}

    until(lambda: all(grown()[reason] >= count for reason, count in expected.items()), PATIENCE)
    after = grown()
    assert {reason: after[reason] for reason in expected} == expected and after["received"] > 0 and after["sent"] > 0


def test_a_flood_from_where_nobody_is_logged_in_is_refused_until_somebody_is(limited, names, counted):
    server, clients = limited()
    flooder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    flooder.bind((HOST, 0))
    stranger = bytes([1, 0]) + bytes(62)

    def flood():
        for _ in range(3000):
            flooder.sendto(stranger, (HOST, server.udp_port))

    def is_refused():
        flood()
        return "flood refused" in server.program.text

    until(is_refused, PATIENCE)
    # Without its datagrams she would not come online.
    alice = clients.online(*names("alice"))
    counts = counted(server, clients)
    assert counts["simp_floods_refused_total"] == 1
    # Under the address of somebody inside nothing is refused: it could be anybody's.
    heard = counts["simp_datagrams_strangers_total"]

    def is_heard():
        flood()
        return counted(server, clients)["simp_datagrams_strangers_total"] > heard + 20_000

    until(is_heard, PATIENCE)
    alice.send_datagram(wire.packet(wire.PING, Ping(token=31), sequence=31).encoded())
    alice.wait(lambda: 31 in alice.pongs, PATIENCE)
    assert counted(server, clients)["simp_floods_refused_total"] == 1
    flooder.close()
