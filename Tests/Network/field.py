"""A server between people and somebody who floods it: three network namespaces and two cables.

All three share a machine here, which they would not. So the flooder has a core of its own, the last, and people go first
on what they share with the server: what they wait for is the server, and what the flood makes the kernel do.
"""

import itertools
import json
import os
import pathlib
import subprocess
import threading

from link import BUILD, HERE
from people import BIN, PORT, Server

SERVER_FOR_PEOPLE, PEOPLE = "10.97.1.2", "10.97.1.1"
SERVER_FOR_FLOODER = "10.97.2.2"
FLOODERS = [f"10.97.2.{last}" for last in range(10, 74)]
_numbers = itertools.count()
_cores = sorted(os.sched_getaffinity(0))
FLOODERS_CORE, OTHER_CORES = _cores[-1:], _cores[:-1] or _cores


def flood_binary():
    BUILD.mkdir(parents=True, exist_ok=True)
    binary, source = BUILD / "flood", HERE / "flood.c"
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["gcc", "-O2", "-o", str(binary), str(source)], check=True)
    return binary


class Field:
    """Both cables end in the server's namespace; nothing is forwarded between them."""

    def __init__(self):
        mark = f"{os.getpid()}-{next(_numbers)}"
        self.people, self.server, self.flooder = (f"simp-{side}-{mark}" for side in "psf")
        self.clients = self.people

    def __enter__(self):
        def ip(side, *arguments):
            subprocess.run(["ip", "-n", side, *arguments], check=True)

        try:
            for name in (self.people, self.server, self.flooder):
                subprocess.run(["ip", "netns", "add", name], check=True)
            for side, there, here, ours, theirs in (
                (self.people, "p0", "sp0", SERVER_FOR_PEOPLE, [PEOPLE]),
                (self.flooder, "f0", "sf0", SERVER_FOR_FLOODER, FLOODERS),
            ):
                ip(self.server, "link", "add", here, "type", "veth", "peer", "name", there, "netns", side)
                ip(self.server, "addr", "add", f"{ours}/24", "dev", here)
                ip(self.server, "link", "set", here, "up")
                for address in theirs:
                    ip(side, "addr", "add", f"{address}/24", "dev", there)
                ip(side, "link", "set", there, "up")
                ip(side, "link", "set", "lo", "up")
            ip(self.server, "link", "set", "lo", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in (self.people, self.server, self.flooder):
            subprocess.run(["ip", "netns", "del", name], check=False)

    def popen(self, side, command, **options):
        cores = FLOODERS_CORE if side == self.flooder else OTHER_CORES
        first = ["nice", "-n", "-10"] if side == self.people else []
        return subprocess.Popen(
            ["taskset", "-c", ",".join(map(str, cores)), *first, "ip", "netns", "exec", side, *map(str, command)],
            **options)


class FieldServer(Server):
    def __init__(self, field, *flags):
        super().__init__(field, *flags, tls=True, listen="0.0.0.0")

    @property
    def pid(self):
        return self.process.pid

    def resident_kib(self):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])


class Flood:
    """What the flooder does, until the end of the `with`."""

    def __init__(self, field, mode, seconds=3600, recording=None):
        port = PORT if mode in ("idle", "hello", "slow") else PORT + 1
        self.process = field.popen(
            field.flooder,
            [flood_binary(), mode, SERVER_FOR_FLOODER, port, seconds, *([recording] if recording else [])],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert "flooding" in self.process.stderr.readline()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        out, _ = self.process.communicate(timeout=60)
        self.report = {key: int(value) for key, value in (part.split("=") for part in out.split())}
        return self.report

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


class Load:
    """simp-bench among the people: what it says at its end."""

    def __init__(self, field, server, *, pairs=4, rate=200, seconds=3):
        self.process = field.popen(
            field.people,
            [BIN / "simp-bench", "pair", "--server", f"{SERVER_FOR_PEOPLE}:{PORT}", "--key",
             server.state / "s" / "signing.key", "--pairs", pairs, "--rate", rate, "-d", f"{int(seconds * 1000)}ms", "--warmup",
             "500ms", "--drain", "90s", "--json", "--pin", server.trust["SIMP_PIN"]],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, seconds=180):
        out, err = self.process.communicate(timeout=seconds)
        assert out, f"simp-bench said nothing: {err}"
        return json.loads(out) | {"status": self.process.returncode}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


class Residence:
    """The most memory that the server had, looked at ten times a second."""

    def __init__(self, server):
        self.server, self.most, self._end = server, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self):
        while not self._end.wait(0.1):
            self.most = max(self.most, self.server.resident_kib())

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()
