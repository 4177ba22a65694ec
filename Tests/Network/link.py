"""Two network namespaces joined by a slow, lossy link (wan.c), made and removed by the test itself."""

import itertools
import os
import pathlib
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / ".build" / "network"
_numbers = itertools.count()

CLIENTS = "10.98.0.1"
SERVER = "10.98.0.2"
SERVER_V6 = "fd98::2"


def wan_binary():
    BUILD.mkdir(parents=True, exist_ok=True)
    binary, source = BUILD / "wan", HERE / "wan.c"
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["gcc", "-O2", "-o", str(binary), str(source)], check=True)
    return binary


def clean_up_on_signals():
    """SIGTERM and SIGINT end the program through its `with` blocks, which remove what they made."""
    def leave(number, _):
        # Once: a second one would cut the cleaning short.
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, leave)


class Link:
    """Clients live on one side, the server on the other; TCP and UDP suffer alike."""

    def __init__(self, loss=0.0, delay_ms=20, seed=1, **more):
        mark = f"{os.getpid()}-{next(_numbers)}"
        self.clients, self.server = f"simp-c-{mark}", f"simp-s-{mark}"
        self.options = dict(loss=loss, delay_ms=delay_ms, seed=seed, **more)
        #: Where the server of this link listens, and as it stands before a port.
        self.address = SERVER_V6 if more.get("v6") else SERVER
        self.at = f"[{self.address}]" if more.get("v6") else self.address
        self.wan = None
        self.report = ""

    def __enter__(self):
        try:
            for name in (self.clients, self.server):
                subprocess.run(["ip", "netns", "add", name], check=True)
            options = [f"{name}={value}" for name, value in self.options.items()]
            self.wan = subprocess.Popen(
                [str(wan_binary()), self.clients, self.server, *options], stderr=subprocess.PIPE, text=True)
            line = self.wan.stderr.readline()
            assert "wan up" in line, f"the link did not come up: {line}"
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.wan:
            self.wan.send_signal(signal.SIGTERM)
            self.report = self.wan.communicate(timeout=10)[1]
        for name in (self.clients, self.server):
            subprocess.run(["ip", "netns", "del", name], check=False)

    def drop_udp(self):
        """From now on no UDP passes, in either direction."""
        rules = "add table inet simp; add chain inet simp in { type filter hook input priority 0; }; " \
                "add rule inet simp in meta l4proto udp counter drop; " \
                "add chain inet simp out { type filter hook output priority 0; }; " \
                "add rule inet simp out meta l4proto udp counter drop"
        subprocess.run(["ip", "netns", "exec", self.server, "nft", rules], check=True)

    def pass_udp(self):
        """What `drop_udp` did is undone."""
        subprocess.run(["ip", "netns", "exec", self.server, "nft", "delete", "table", "inet", "simp"], check=True)

    def rebind(self):
        """From the next datagram on the clients have other ports, or addresses with `rebind_addr=1`."""
        self.wan.send_signal(signal.SIGUSR1)

    def dropped_udp(self):
        out = subprocess.run(
            ["ip", "netns", "exec", self.server, "nft", "list", "table", "inet", "simp"],
            check=True, capture_output=True, text=True).stdout
        return sum(int(line.split("packets")[1].split()[0]) for line in out.splitlines() if "packets" in line)

    def popen(self, side, command, **options):
        return subprocess.Popen(["ip", "netns", "exec", side, *map(str, command)], **options)


def wait_until(condition, seconds, what):
    """Polls; the wait ends with what it waited for, never before."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"timed out after {seconds} s waiting for {what}"
        time.sleep(0.01)
    return value
