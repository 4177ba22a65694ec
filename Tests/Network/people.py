"""Alice, Bob and the server of a scenario, as processes on their sides of a link."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading

from capture import Capture
from link import wait_until

BIN = pathlib.Path(os.environ["SIMP_BIN"])
PORT = 7467


class Server:
    """In clear text, so that a capture can be read, unless `tls`."""

    def __init__(self, link, *flags, tls=False, listen=None):
        self.link, self.tls, self.listen = link, tls, listen or link.address
        self.flags = flags if tls else ("--tls", "off", "--insecure", *flags)
        self.state = pathlib.Path(tempfile.mkdtemp(prefix="simp-net-"))
        self.log = open(self.state / "server.log", "w+")
        self.process = None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            if self.process:
                self.__exit__()
            raise
        return self

    def start(self):
        self.process = self.link.popen(
            self.link.server,
            [BIN / "simp-server", "--listen", self.listen, "--port", PORT, "--udp-port", PORT + 1,
             "--state", self.state / "s", *self.flags],
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        assert "ready" in line, f"the server did not start: {self.text()}"
        self.node = line.split("node ")[1].split(",")[0]

    def kill(self):
        """As a crash: at once, without a word."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def text(self):
        return (self.state / "server.log").read_text()

    @property
    def trust(self):
        """What its clients have in their environment."""
        if not self.tls:
            return {"SIMP_TLS": "off", "SIMP_INSECURE": "yes"}
        return {"SIMP_PIN": (self.state / "s" / "server.pin").read_text().strip()}

    @property
    def redis_socket(self):
        return self.state / "s" / "redis" / "redis.sock"

    def redis(self, *arguments):
        return subprocess.run(
            ["redis-cli", "-s", str(self.redis_socket), *arguments], check=True, capture_output=True,
            text=True).stdout

    def redis_pid(self):
        """None while it does not answer."""
        info = subprocess.run(
            ["redis-cli", "-s", str(self.redis_socket), "info", "server"], capture_output=True, text=True).stdout
        pids = [line.split(":")[1] for line in info.splitlines() if line.startswith("process_id")]
        return int(pids[0]) if pids else None

    def kill_redis(self):
        pid = self.redis_pid()
        os.kill(pid, signal.SIGKILL)
        return pid

    def token(self, user):
        return subprocess.run(
            [BIN / "simp", "token", user, "--key", self.state / "s" / "signing.key"], check=True,
            capture_output=True, text=True).stdout.strip()

    def counters(self):
        """What it counted since its start, by name."""
        environment = {**os.environ, **self.trust, "SIMP_SERVER": f"{self.link.at}:{PORT}"}
        out = self.link.popen(
            self.link.clients, [BIN / "simp", "admin", "counters", "--json", "--key", self.state / "s" / "signing.key"],
            env=environment, stdout=subprocess.PIPE, text=True).communicate(timeout=60)[0]
        return json.loads(out)

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=15)
        else:
            # A killed server leaves its Redis for the next one; there is none.
            subprocess.run(["redis-cli", "-s", str(self.redis_socket), "shutdown"], capture_output=True)
        self.process.stdout.close()
        self.log.close()
        shutil.rmtree(self.state)


class Person:
    """A `simp` command, with its output gathered as it comes; `gather` gets each line as well."""

    def __init__(self, link, server, user, *arguments, feed=False, token=None, gather=None):
        self.out, self.err = [], []
        self.process = link.popen(
            link.clients, [BIN / "simp", *arguments],
            env={**os.environ, **server.trust, "SIMP_SERVER": f"{link.at}:{PORT}",
                 "SIMP_TOKEN": token or server.token(user)},
            stdin=subprocess.PIPE if feed else subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.threads = [
            threading.Thread(target=self._gather, args=each, daemon=True)
            for each in ((self.process.stdout, self.out, gather), (self.process.stderr, self.err, None))]
        for thread in self.threads:
            thread.start()

    @staticmethod
    def _gather(stream, lines, gather):
        for line in stream:
            lines.append(line)
            if gather:
                gather(line)

    def feed(self, lines):
        self.process.stdin.write(b"".join(lines))
        self.process.stdin.flush()

    def finish(self, seconds):
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()
        status = self.process.wait(timeout=seconds)
        for thread in self.threads:
            thread.join()
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Tap:
    """tcpdump on the clients' end of the link."""

    def __init__(self, link, path):
        self.path, self.link = path, link
        self.process = link.popen(
            link.clients,
            ["tcpdump", "-i", "wan0", "-U", "--immediate-mode", "-B", "8192", "-Z", "root", "-w", path, f"host {link.address}"],
            stderr=subprocess.PIPE, text=True)
        assert "listening" in self.process.stderr.readline()

    def read(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=10)
        self.process.stderr.close()
        return Capture(self.path, self.link.address)


def received(person):
    return [json.loads(line) for line in person.out]


def wait_online(server, user):
    wait_until(lambda: "transport=udp" in server.redis("hvals", f"simp:endpoints:{{u:{user}}}"), 30, f"{user} to be on")
