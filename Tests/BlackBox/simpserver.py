"""Starts simp-server for a test, makes tokens by hand, and asks its Redis."""

import base64
import errno
import hashlib
import hmac
import json
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import threading
import time

import simpclient

HOST = "127.0.0.1"
BIN = pathlib.Path(os.environ.get("SIMP_BIN", "."))


def free_port(kind=socket.SOCK_STREAM):
    """A port that nobody has, below those that the system gives out by itself, so that none of these takes it."""
    while True:
        port = 10_000 + secrets.randbelow(22_000)
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind((HOST, port))
                return port
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise


def _part(value):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def make_token(secret, claims, header=None):
    """A JWT with HS256, RFC 7515, by hand."""
    signed = _part(header or {"alg": "HS256", "typ": "JWT"}) + b"." + _part(claims)
    return (signed + b"." + _part(hmac.new(secret, signed, hashlib.sha256).digest())).decode()


class Program:
    """A process whose output is gathered line by line."""

    def __init__(self, arguments, **options):
        self.process = subprocess.Popen(
            [str(each) for each in arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        self.out, self.err = [], []
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._gather, args=pair, daemon=True)
            for pair in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for each in self._threads:
            each.start()

    def _gather(self, pipe, lines):
        for line in pipe:
            with self._changed:
                lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    @property
    def text(self):
        return "\n".join(self.out + self.err)

    def wait_for(self, condition, timeout=simpclient.PATIENCE):
        """Waits until the condition over self holds."""
        end = time.monotonic() + timeout
        with self._changed:
            while not (value := condition()):
                left = end - time.monotonic()
                over = self.process.poll() is not None and not any(each.is_alive() for each in self._threads)
                assert left > 0 and not over, f"{self.process.args}: exit {self.process.poll()}\n{self.text}"
                self._changed.wait(min(left, 0.1))
        return value

    def finish(self, timeout=simpclient.PATIENCE):
        """The exit status, once all output is here."""
        status = self.process.wait(timeout)
        for each in self._threads:
            each.join(timeout)
        return status

    def stop(self, number=signal.SIGTERM, timeout=simpclient.PATIENCE):
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.finish(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.finish()
            raise AssertionError(f"{self.process.args} did not end\n{self.text[-4000:]}") from None


class Server:
    def __init__(self, state, *arguments, port=None, udp_port=None, redis="embedded", host=HOST):
        self.state, self.where, self.host = pathlib.Path(state), redis, host
        self.port = port or free_port()
        self.udp_port = udp_port or free_port(socket.SOCK_DGRAM)
        # A busy machine keeps the loop from running: only a test of that has the server refuse logins for it.
        self.arguments = arguments if "--overload-lag" in arguments else ("--overload-lag", "60s", *arguments)
        self.launcher = []  # what starts the program, in front of its own command line
        self.bin = BIN
        self.program = None

    def start(self):
        self.program = Program([
            *self.launcher, self.bin / "simp-server", "--redis", self.where, "--state", self.state, "--listen", self.host, "--port",
            self.port, "--udp-port", self.udp_port, "--log-level", "debug", *self.arguments])
        self.program.wait_for(lambda: any("ready" in line for line in self.program.out + self.program.err))
        return self

    def stop(self, number=signal.SIGTERM):
        return self.program.stop(number)

    def clean_up(self):
        """Ends what a test left running, and the Redis of a server that was killed."""
        try:
            self.stop()
        except AssertionError:
            pass
        try:
            self.redis("SHUTDOWN", "NOSAVE")
        except (OSError, IndexError):
            pass  # gone with the server, as it should be

    # -- Tokens

    @property
    def secret(self):
        return bytes.fromhex((self.state / "signing.key").read_text().strip())

    def token(self, user, ttl=3600, **claims):
        return make_token(self.secret, {"sub": user, "exp": int(time.time()) + ttl} | claims)

    # -- Clients

    @property
    def pin(self):
        """What clients trust; None with TLS off."""
        off = "--tls" in self.arguments and "off" in self.arguments
        return None if off else (self.state / "server.pin").read_text().strip()

    def client(self, user, host=None, **options):
        return simpclient.Client(host or self.host, self.port, self.token(user), pin=self.pin, **options)

    # -- Redis

    def redis(self, *arguments):
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(simpclient.PATIENCE)
            link.connect(str(self.state / "redis" / "redis.sock"))
            parts = [str(each).encode() for each in arguments]
            link.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(each), each) for each in parts))
            return _read_reply(link.makefile("rb"))

    def endpoints(self, user):
        """Device number to the fields of its endpoint."""
        flat = self.redis("HGETALL", "simp:endpoints:{u:%s}" % user)
        return {
            int(device): dict(part.split("=", 1) for part in value.split())
            for device, value in zip(flat[::2], flat[1::2])
        }


def until(condition, timeout=simpclient.PATIENCE):
    """For what only Redis shows: polls until the condition gives something true."""
    end = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < end, "timed out"
        time.sleep(0.02)
    return value


class Clients:
    """Makes clients of one server and closes them at the end of a `with`."""

    def __init__(self, server):
        self.server, self.all = server, []

    def new(self, user, **options):
        self.all.append(self.server.client(user, **options))
        return self.all[-1]

    def login(self, user, **options):
        client = self.new(user, **options)
        client.login()
        return client

    def online(self, user, **options):
        """A client whose UDP path is up."""
        client = self.login(user, **options)
        client.prove_path()
        return client

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in self.all:
            each.close()


def _read_reply(stream):
    line = stream.readline().rstrip(b"\r\n").decode()
    kind, rest = line[0], line[1:]
    if kind == "-":
        raise RuntimeError(rest)
    if kind == "$":
        return None if rest == "-1" else stream.read(int(rest) + 2)[:-2].decode()
    if kind == "*":
        return [_read_reply(stream) for _ in range(int(rest))]
    return int(rest) if kind == ":" else rest
