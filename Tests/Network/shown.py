"""What a conversation does when the network turns on it, with figures. Alone: `Tests/Network/run --shown` prints all of
them, the long ones as well (three minutes)."""

import subprocess
import sys
import threading
import time

import cases
from cases import Case
from link import SERVER, Link, clean_up_on_signals, wait_until
from people import Server
from talk import Talk


def udp_away(seconds=4, seed=1):
    """All UDP is dropped in mid-conversation, and passes again."""
    with Link(loss=0, delay_ms=10, seed=seed) as link, Server(link, tls=True) as server, Talk(link, server) as talk:
        wait_until(lambda: len(talk.came) > 50, 60, "the conversation to begin")
        gone = time.monotonic()
        link.drop_udp()
        time.sleep(seconds)  # the outage itself
        dropped = link.dropped_udp()
        link.pass_udp()
        back = time.monotonic()
        wait_until(lambda: talk.first_by_udp(back) is not None, 60, "UDP to be used again")
        talk.finish()
        return dict(dropped=dropped, worst=talk.latencies(gone - 1, back)[-1], back=talk.first_by_udp(back) - back,
                    lines=len(talk.written), logins=talk.logins)


def rebinding(who, every_ms=1000, count=6, addresses=False, seed=1):
    """`sender` or `listener` gets another port, or address, again and again; the other one speaks TCP alone."""
    flags = {"alice" if who == "listener" else "bob": ("--no-udp",)}
    with Link(loss=0, delay_ms=10, seed=seed, rebind_addr=int(addresses)) as link, Server(link, tls=True) as server:
        if who == "sender":
            flags["bob"] = ("--no-udp",)
        with Talk(link, server, **flags) as talk:
            wait_until(lambda: len(talk.came) > 20, 60, "the conversation to begin")
            if who == "listener":
                wait_until(lambda: talk.first_by_udp(0) is not None, 60, "the listener to be reached by UDP")
            begin = time.monotonic()
            for _ in range(count):
                link.rebind()
                time.sleep(every_ms / 1000)  # the pace of the rebindings is what is tested
            talk.finish()
        by_udp, logins = sum(via == "udp" for _, via in talk.came.values()), talk.logins
    latencies = talk.latencies()
    return dict(pause=talk.longest_pause(begin), p99=latencies[int(len(latencies) * 0.99)], worst=latencies[-1],
                lines=len(latencies), by_udp=by_udp, logins=logins, rebound=cases.counts(link.report)[1])


#: Losses begin when both are logged in; then they meet receipts and TCP as well.
BURSTS = Case("30 % loss in bursts of three", dict(loss=0.3, burst=3, after_ms=1500), rate=100, seconds=4,
              must=(("up", "dropped"), ("down", "dropped")))


def narrow(seconds=20, udp=True, size=1000):
    """128 kbit/s each way with a queue of 50 packets, as much as the windows allow: goodput in shares of the rate."""
    with Link(loss=0, delay_ms=10, rate_mbit=0.128, queue=50) as link, Server(link, tls=True) as server:
        people = bench(link, server, seconds, size, [] if udp else ["--no-udp"]).finish()
    return dict(share=people["rate_per_s"] * size / 16_000, people=people, link=cases.counts(link.report)[0])


def beside_tcp(seconds=20, size=1000, delay_ms=20, queue=50):
    """We and one TCP (cubic) flow on 10 Mbit/s, both upwards: bytes a second of each, as they arrived."""
    with Link(loss=0, delay_ms=delay_ms, rate_mbit=10, queue=queue) as link, Server(link, tls=True) as server:
        with bench(link, server, seconds, size, []) as load:
            with Flow(link) as flow:
                time.sleep(2)  # both are past their beginning
                before, began = flow.received, time.monotonic()
                time.sleep(seconds - 3)
                theirs = (flow.received - before) / (time.monotonic() - began)
            people = load.finish()
    return dict(ours=people["rate_per_s"] * size, theirs=theirs, people=people)


def bench(link, server, seconds, size, flags):
    return cases.BenchRun(link, server, ["--pairs", 1, "-s", size, "-d", f"{seconds}s", "--warmup", "1s", *flags])


class Flow:
    """A TCP connection that always has something to send, from the clients' side to the server's."""

    SINK = """
import socket, sys
listener = socket.create_server((sys.argv[1], 7500))
print("ready", flush=True)
peer, _ = listener.accept()
total = 0
while data := peer.recv(1 << 16):
    total += len(data)
    print(total, flush=True)
"""
    SOURCE = """
import socket, sys
peer = socket.socket()
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
peer.connect((sys.argv[1], 7500))
while True:
    peer.sendall(bytes(1 << 14))
"""

    def __init__(self, link):
        self.received = 0
        self.sink = link.popen(link.server, [sys.executable, "-c", self.SINK, SERVER], stdout=subprocess.PIPE, text=True)
        assert "ready" in self.sink.stdout.readline()
        self.source = link.popen(link.clients, [sys.executable, "-c", self.SOURCE, SERVER], stderr=subprocess.DEVNULL)
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self):
        for line in self.sink.stdout:
            self.received = int(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in (self.source, self.sink):
            process.kill()
            process.wait()


def main():
    def show(name, figures):
        print(f"{name}: " + ", ".join(
            f"{key} {value:.3f}" if isinstance(value, float) else f"{key} {value}" for key, value in figures.items()
            if not isinstance(value, dict)), flush=True)

    show("all UDP dropped for 6 s (seconds)", udp_away(6))
    for who in ("sender", "listener"):
        show(f"a new port every second for a minute, the {who} (seconds)", rebinding(who, count=60))
    print(cases.line(BURSTS, cases.run(BURSTS)), flush=True)
    for udp in (True, False):
        result = narrow(udp=udp)
        people = result["people"]
        show(f"128 kbit/s, queue of 50{'' if udp else ', TCP only'}", dict(
            share=result["share"], delivered=people["delivered"], again=people["retransmitted"], by_tcp=people["by_tcp"],
            doubled=people["duplicated"], verdict=people["verdict"]))
    result = beside_tcp()
    show("beside one TCP (cubic) flow on 10 Mbit/s, bytes/s", dict(
        ours=result["ours"], theirs=result["theirs"], ratio=result["ours"] / max(1, result["theirs"])))


if __name__ == "__main__":
    clean_up_on_signals()
    main()
