"""The cases of the QUIC interop runner (github.com/quic-interop/quic-interop-runner, testcases_quic.py), as far as they
mean something here, over real sockets. Nothing is lost, doubled or out of order in any of them; how long it took is
printed, not asserted. Not here: versions, 0-RTT, ECN and HTTP, which this protocol has not; resumption, which is that of
TLS (SDKTLSTests); connectionmigration, which here has no new connection id (rebind-addr is what there is); what is first
in a server's datagram on a new path, which is sealed."""

import functools

import pytest

import cases
import shown
from cases import Case
from link import Link
from people import Person, Server, wait_online

LOST = (("up", "dropped"), ("down", "dropped"))
CORRUPTED = (("up", "corrupted"), ("down", "corrupted"))

CASES = [
    Case("handshake", dict(delay_ms=15, rate_mbit=10, queue=25)),
    Case("ipv6", dict(delay_ms=15, rate_mbit=10, queue=25, v6=1, loss=0.02), must=LOST),
    Case("chacha20", dict(delay_ms=15, rate_mbit=10, queue=25), people=("--cipher", "chacha20"),
         cipher="ChaCha20-Poly1305"),
    Case("keyupdate", dict(delay_ms=15, loss=0.02), rate=800, seconds=3, must=LOST,
         server=("--key-phase-packets", 100), people=("--key-phase-packets", 100),
         counted=(("simp_key_changes_total", 4), ("simp_key_changes_of_clients_total", 4))),
    Case("longrtt", dict(delay_ms=750), pairs=1, rate=50),
    Case("transferloss", dict(delay_ms=15, loss=0.02, burst=3), rate=800, seconds=3, must=LOST),
    shown.BURSTS,
    Case("loss of 5 % on the way up", dict(loss_up=0.05), rate=300, must=LOST[:1]),
    Case("loss of 5 % on the way down", dict(loss_down=0.05), rate=300, must=LOST[1:]),
    Case("transfercorruption", dict(delay_ms=15, corrupt=0.02, plane=1), rate=600, seconds=3, must=CORRUPTED),
    Case("handshakecorruption", dict(delay_ms=15, corrupt=0.3, plane=1), must=CORRUPTED),
    # The runner has 5 s and 2 s.
    Case("blackhole", dict(delay_ms=15, on_ms=2500, off_ms=1000), seconds=4, must=LOST),
    # Proofs and first messages of the first client are among these.
    Case("amplificationlimit", dict(drop_from_up=2, drop_to_up=7), must=LOST[:1]),
    Case("retransmission: early datagrams down are lost", dict(drop_from_down=4, drop_to_down=9), must=LOST[1:]),
    Case("rebind-port", dict(rebind_ms=5000, rebind_from_ms=1000), seconds=3, rebound=1),
    Case("rebind-port every second", dict(rebind_ms=1000, rebind_from_ms=1000), seconds=4, rebound=3),
    Case("rebind-port every 300 ms", dict(rebind_ms=300, rebind_from_ms=1000, rebind_count=8), seconds=3, rebound=8),
    Case("rebind-port every 50 ms", dict(rebind_ms=50, rebind_from_ms=1000, rebind_count=20), seconds=3, rebound=20),
    Case("rebind-addr", dict(rebind_ms=5000, rebind_from_ms=1000, rebind_addr=1), seconds=3, rebound=1),
    Case("rebind-addr every second", dict(rebind_ms=1000, rebind_from_ms=1000, rebind_addr=1), seconds=4, rebound=3),
    Case("MTU of 1100 bytes on the way up", dict(mtu_up=1100), must=(("up", "oversize"),)),
    Case("MTU of 1100 bytes on the way down", dict(mtu_down=1100), must=(("down", "oversize"),)),
    Case("goodput on 10 Mbit/s with a queue of 25", dict(delay_ms=15, rate_mbit=10, queue=25), pairs=4, rate=2000),
]


def handshakeloss():
    """30 % each way, in bursts of three, for TCP as well: whoever gets through logs in, and what he came for is done.
    TCP asks four times in 10 s, and `simp` says so when it gets no session; then he comes again."""
    waiting = [f"alice{number}" for number in range(12)]
    expected = sorted(f"hello from {name}\n".encode() for name in waiting)
    with Link(loss=0.3, burst=3, delay_ms=15, seed=7) as link, Server(link, tls=True) as server:
        tokens = {name: server.token(name) for name in waiting}
        with Person(link, server, "bob", "listen", "-n", len(waiting), "--timeout", "170s") as bob:
            for _ in range(6):
                people = {name: Person(link, server, name, "send", "bob", f"hello from {name}", "--timeout", "170s",
                                       token=tokens[name]) for name in waiting}
                try:
                    failed = {name: person.err for name, person in people.items() if person.finish(180) != 0}
                finally:
                    for person in people.values():
                        person.__exit__()
                # Whoever had no session sent nothing; any other end is none of the network's.
                assert all(b"connect to" in b"".join(err) or b"no session" in b"".join(err) for err in failed.values()), failed
                waiting = list(failed)
                if not waiting:
                    break
            assert not waiting
            assert bob.finish(180) == 0, bob.err
    assert sorted(bob.out) == expected
    link_counts, _ = cases.counts(link.report)
    assert min(link_counts[way]["dropped"] for way in ("up", "down")) > 0


def multiplexing():
    """Thousands of small messages in one session, in order."""
    lines = [f"line {number}\n".encode() for number in range(10_000)]
    with Link(loss=0, delay_ms=15, rate_mbit=10, queue=100) as link, Server(link, tls=True) as server:
        with Person(link, server, "bob", "listen", "-n", len(lines), "--timeout", "170s") as bob:
            wait_online(server, "bob")
            with Person(link, server, "alice", "send", "bob", "--timeout", "170s", feed=True) as alice:
                alice.feed(lines)
                assert alice.finish(180) == 0, alice.err
            assert bob.finish(180) == 0, bob.err
    assert bob.out == lines


LONG = {"handshakeloss": handshakeloss, "multiplexing": multiplexing}


@pytest.fixture(scope="module")
def results(request):
    """Those that are asked for, several at a time, those that take longest first."""
    asked = {item.callspec.params["name"] for item in request.session.items if item.path == request.path}
    runs = LONG | {case.name: functools.partial(cases.run, case) for case in CASES}
    return cases.beside_one_another({name: run for name, run in runs.items() if name in asked})


@pytest.mark.parametrize("name", LONG)
def test_many(name, results):
    results[name].result(timeout=400)


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_case(name, results):
    case = next(case for case in CASES if case.name == name)
    result = results[name].result(timeout=400)
    print(cases.line(case, result))
    people = result.people
    assert people["sent"] == people["delivered"] > 0, people
    assert people["lost"] == people["duplicated"] == people["out_of_order"] == people["corrupt"] == 0, people
    assert (people["status"], people["verdict"]) == (0, "good"), people
    assert people["cipher"] == (case.cipher if case.udp else None), people
    for counter, least in case.counted:
        assert result.counters[counter] >= least, (counter, result.counters[counter])
    for way, name in case.must:
        assert result.link[way][name] > 0, f"the link did nothing: {result.link}"
    assert result.rebound >= case.rebound, result.rebound
    # Each client logged in once: no trouble of the network ended a session.
    assert result.logins == 2 * case.pairs, result.server_log[-4000:]
