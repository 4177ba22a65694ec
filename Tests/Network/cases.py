"""One load over one bad link: real server, real clients, everything in namespaces of its own."""

import concurrent.futures
import dataclasses
import json
import subprocess

from link import Link, wan_binary
from people import BIN, PORT, Server


@dataclasses.dataclass
class Case:
    name: str
    #: What wan.c does, by its names.
    link: dict
    pairs: int = 2
    rate: int = 100
    seconds: float = 2
    udp: bool = True
    #: Flags of the server, and of `simp-bench pair`.
    server: tuple = ()
    people: tuple = ()
    cipher: str = "AES-128-GCM"
    #: What the server has to have counted: (name, at least).
    counted: tuple = ()
    #: Counts of the link that must not be 0: (direction, name).
    must: tuple = ()
    #: How often the clients have to have got another address.
    rebound: int = 0


@dataclasses.dataclass
class Result:
    people: dict
    link: dict
    rebound: int
    server_log: str
    #: Of the server, by name.
    counters: dict

    @property
    def logins(self):
        return self.server_log.count(" login user=")


class BenchRun:
    """`simp-bench pair` on the clients' side of a link."""

    def __init__(self, link, server, flags):
        self.server = server
        self.process = link.popen(
            link.clients,
            [BIN / "simp-bench", "pair", "--server", f"{link.at}:{PORT}", "--key", server.state / "s" / "signing.key",
             "--drain", "120s", "--json", "--pin", server.trust["SIMP_PIN"], *flags],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def finish(self, seconds=200):
        """Its report, with its status."""
        with self:
            out, err = self.process.communicate(timeout=seconds)
        assert out, f"simp-bench said nothing: {err}\n{self.server.text()[-2000:]}"
        assert self.server.process.poll() is None, f"the server is gone\n{self.server.text()[-4000:]}"
        return json.loads(out) | {"status": self.process.returncode}


def run(case, seed=1):
    """Pairs of people talk; the wait for what is under way ends with its arrival, and after two minutes at most."""
    with Link(**{"delay_ms": 10, "loss": 0, "seed": seed} | case.link) as link:
        with Server(link, *case.server, tls=True) as server:
            people = BenchRun(link, server, [
                "--pairs", case.pairs, "--rate", case.rate, "-d", f"{int(case.seconds * 1000)}ms", "--warmup", "200ms",
                *([] if case.udp else ["--no-udp"]), *case.people]).finish()
            log = server.text()
            counters = server.counters() if case.counted else {}
    return Result(people, *counts(link.report), log, counters)


def counts(report):
    """What wan.c printed at its end: numbers by direction and name, and how often it rebound."""
    found, rebound = {}, 0
    for line in report.splitlines():
        words = line.split()
        if words and words[0] in ("A->B:", "B->A:"):
            found["up" if words[0] == "A->B:" else "down"] = dict(zip(words[1::2], map(int, words[2::2])))
        elif words and words[0] == "rebound":
            rebound = int(words[1])
    return found, rebound


def beside_one_another(runs, at_a_time=6):
    """Name to the future of its run: most of their time is waiting."""
    wan_binary()  # built once, not by each
    pool = concurrent.futures.ThreadPoolExecutor(at_a_time)
    futures = {name: pool.submit(run) for name, run in runs.items()}
    pool.shutdown(wait=False)
    return futures


def line(case, result):
    """One line of figures."""
    people, latency = result.people, result.people["latency_ms"]
    ways = "; ".join(
        f"{way} " + " ".join(f"{name} {value}" for name, value in result.link[way].items() if value or name == "seen")
        for way in ("up", "down"))
    return (f"{case.name}: {people['delivered']} of {people['sent']}, doubled {people['duplicated']}, out of order "
            f"{people['out_of_order']}, sent again {people['retransmitted']}, by TCP {people['by_tcp']}, p50 "
            f"{latency['p50']:.1f} p99 {latency['p99']:.1f} max {latency['max']:.0f} ms; {ways}; rebound {result.rebound}")
