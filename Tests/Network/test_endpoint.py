"""What Redis says of who is where: while somebody is on, after he left, and after the server died."""

import time

from link import CLIENTS, Link, wait_until
from people import Person, Server, wait_online

CLEAN = dict(loss=0.0, delay_ms=5)


def endpoint(server):
    values = server.redis("hvals", "simp:endpoints:{u:bob}").split()
    return dict(value.split("=", 1) for value in values)


def test_the_endpoint_while_he_is_on_and_after_he_left():
    with Link(**CLEAN) as link, Server(link) as server:
        with Person(link, server, "bob", "listen", "-v") as bob:
            wait_online(server, "bob")
            entry = endpoint(server)
            wait_until(lambda: any(b"seen as" in line for line in bob.err), 20, "bob to hear of his address")
            seen = next(line for line in bob.err if b"seen as" in line).split(b"seen as ")[1].split(b",")[0]
            assert entry["udp"] == seen.strip().decode() and entry["udp"].startswith(CLIENTS + ":")
            assert entry["node"] == server.node and entry["transport"] == "udp" and entry["state"] == "live"
            bob.process.terminate()
            bob.finish(20)
        wait_until(lambda: not server.redis("exists", "simp:endpoints:{u:bob}").startswith("1"), 20, "bob to be gone")


def test_a_dead_node_is_gone_and_its_successor_stores():
    with Link(**CLEAN) as link, Server(link, "--log-level", "debug") as server:
        first = server.node
        with Person(link, server, "bob", "listen") as bob:
            wait_online(server, "bob")
            assert server.redis("exists", f"simp:node:{first}").startswith("1")
            server.kill()
            # Nobody refreshes it any more.
            left = int(server.redis("pttl", f"simp:node:{first}"))
            killed = time.monotonic()
        assert left <= 15_000
        wait_until(lambda: server.redis("exists", f"simp:node:{first}").startswith("0"), 40, "the node to be gone")
        gone = time.monotonic() - killed
        server.start()
        assert server.node != first
        # His endpoint still stands there as live.
        assert endpoint(server)["node"] == first and endpoint(server)["state"] == "live"
        with Person(link, server, "alice", "send", "bob", "hello again", "-v", "--timeout", "60s") as alice:
            assert alice.finish(40) == 0
            assert any(b" stored: bob gets it later" in line for line in alice.out), alice.out
        assert endpoint(server)["state"] == "catching"
        with Person(link, server, "bob", "listen", "-n", "1", "--timeout", "30s") as bob:
            assert bob.finish(40) == 0 and bob.out == [b"hello again\n"]
    print(f"simp:node gone {gone:.1f} s after the kill, {left / 1000:.1f} s were left")
