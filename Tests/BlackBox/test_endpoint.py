"""Where a user is: in Redis, observed and proven, only while it is true. And the server's own ends."""

import os
import re
import signal
import time

import pytest

from receipt_pb2 import STORED
from session_pb2 import ERROR_SHUTTING_DOWN
from simpclient import wait_all
from simpserver import Clients, Server, until


def test_the_endpoint_is_the_observed_address(server, clients, names):
    (bob,) = names("bob")
    b = clients.online(bob)
    endpoint = until(lambda: (it := server.endpoints(bob)[b.device])["udp"] != "-" and it)
    host, port = b.udp.getsockname()
    assert endpoint["udp"] == f"{host}:{port}" == f"{b.path_up.address}:{b.path_up.port}"
    assert endpoint["transport"] == "udp"
    assert int(endpoint["epoch"]) == b.session.session_epoch
    assert endpoint["node"] == b.session.node
    assert int(endpoint["cid"], 16) == b.session.connection_id
    assert abs(int(endpoint["since"]) - time.time() * 1000) < 60_000
    b.logout()
    until(lambda: not server.endpoints(bob))


def test_the_endpoint_goes_when_the_connection_breaks(server, clients, names):
    (bob,) = names("bob")
    b = clients.online(bob)
    until(lambda: server.endpoints(bob))
    b.close()
    until(lambda: not server.endpoints(bob))
    assert server.redis("EXISTS", "simp:endpoints:{u:%s}" % bob) == 0


def test_without_udp_no_address_is_invented(server, clients, names):
    (bob,) = names("bob")
    b = clients.login(bob)
    b.settle(0.3)
    assert all(each["udp"] == "-" for each in server.endpoints(bob).values())


def test_a_challenge_alone_writes_no_address(server, clients, names):
    (bob,) = names("bob")
    b = clients.login(bob)
    b.answers_challenges = False
    b.send_challenge()
    b.wait(lambda: b.proof)
    b.settle(0.3)
    assert all(each["udp"] == "-" for each in server.endpoints(bob).values())
    assert b.path_up is None


def test_an_old_session_does_not_remove_the_endpoint_of_a_new_one(server, clients, names):
    (bob,) = names("bob")
    clients.online(bob)
    second = clients.online(bob)
    until(lambda: list(server.endpoints(bob)) == [second.device])
    second.settle(0.5)
    endpoints = server.endpoints(bob)
    assert list(endpoints) == [second.device]
    assert int(endpoints[second.device]["epoch"]) == second.session.session_epoch


def test_send_only_has_no_endpoint(server, clients, names):
    (bob,) = names("bob")
    b = clients.login(bob, send_only=True)
    b.start_proof()
    b.settle(0.5)
    assert not server.endpoints(bob)


def test_keys_are_those_of_the_design(server, clients, names):
    (bob,) = names("bob")
    b = clients.online(bob)
    node = "simp:node:" + b.session.node
    assert 0 < server.redis("TTL", node) <= 15
    assert re.search(r"since=\d+ pid=%d\b" % server.program.process.pid, server.redis("GET", node))
    keys = set(server.redis("KEYS", f"*{bob}*"))
    assert keys <= {"simp:endpoints:{u:%s}" % bob, "simp:devices:{u:%s}" % bob}
    assert "simp:devices:{u:%s}" % bob in keys


def test_a_server_that_is_told_to_stop_says_so_and_leaves_nothing(own_server, names):
    (bob,) = names("bob")
    with Clients(own_server) as clients:
        b = clients.online(bob)
        until(lambda: own_server.endpoints(bob))
        node = b.session.node
        own_server.program.process.send_signal(signal.SIGTERM)
        b.wait(lambda: b.closed)
        assert b.ended.code == ERROR_SHUTTING_DOWN and b.ended.retry_after_ms > 0
        assert b.ended.retry_spread_ms == 500
        assert own_server.stop() == 0
        own_server.start()
        assert not own_server.endpoints(bob)
        assert own_server.redis("EXISTS", f"simp:node:{node}") == 0


def test_a_killed_server_leaves_no_live_node(own_server, names):
    alice, bob = names("alice", "bob")
    with Clients(own_server) as clients:
        b = clients.online(bob)
        until(lambda: own_server.endpoints(bob))
        own_server.stop(signal.SIGKILL)
        own_server.start()
        # The endpoint of a node that is gone is nobody: bob gets it when he is back.
        a = clients.online(alice)
        assert a.session.node != b.session.node
        assert own_server.redis("EXISTS", f"simp:node:{b.session.node}") == 0
        sent = a.send(bob, "hello")
        wait_all([a], lambda: STORED in sent.states)
        again = clients.online(bob, outbox_id=b.outbox_id, device=b.device)
        assert again.device == b.device and again.session.session_epoch > b.session.session_epoch
        wait_all([a, again], lambda: sent.is_final)
        assert again.texts() == ["hello"]
        until(lambda: own_server.endpoints(bob)[again.device]["node"] == again.session.node)


def test_messages_survive_the_kill_of_the_server(own_server, names):
    """What was sent and not final is offered again to the next server by its sender, and arrives once."""
    alice, bob = names("alice", "bob")
    with Clients(own_server) as clients:
        a, b = clients.online(alice), clients.online(bob)
        b.confirms = False
        sent = [a.send(bob, f"{number}") for number in range(50)]
        wait_all([a, b], lambda: len(b.inbox) == 50)
        assert not any(each.is_final for each in sent)
        own_server.stop(signal.SIGKILL)
        own_server.start()
        for each in (a, b):
            each.wait(lambda: each.closed)
            each.close()
            each.connect().login()
            each.prove_path()
        b.confirms = True
        for each in sent:
            a.transmit([each])
        wait_all([a, b], lambda: all(each.is_final for each in sent), timeout=30)
        assert sorted(b.texts(), key=int) == [f"{number}" for number in range(50)]


def test_the_server_lives_on_while_redis_is_away(own_server, names):
    alice, bob = names("alice", "bob")
    with Clients(own_server) as clients:
        a, b = clients.online(alice), clients.online(bob)
        until(lambda: own_server.endpoints(bob))
        pid = int(re.search(r"process_id:(\d+)", own_server.redis("INFO", "server")).group(1))
        os.kill(pid, signal.SIGKILL)
        sent = [a.send(bob, f"{number}") for number in range(20)]
        wait_all([a, b], lambda: all(each.is_final for each in sent))
        assert b.texts() == [f"{number}" for number in range(20)]

        def back():
            try:
                return own_server.endpoints(bob).get(b.device)
            except (OSError, RuntimeError, IndexError):
                return None

        assert until(back)["udp"] == "%s:%d" % b.udp.getsockname()


def test_a_second_server_on_the_same_state_is_refused(server):
    second = Server(server.state)
    with pytest.raises(AssertionError) as raised:
        second.start()
    assert second.program.process.poll() not in (0, None)
    assert str(server.state) in second.program.text or "state" in second.program.text
    assert "ready" not in second.program.text, raised
