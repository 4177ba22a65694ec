"""simp-server as a program: what it asks for, what it refuses, and how it ends."""

import os
import pathlib
import signal
import socket
import subprocess

import pytest

from receipt_pb2 import DELIVERED, LATER
from session_pb2 import ERROR_UNAVAILABLE
from simpclient import Refused, wait_all
from simpserver import BIN, HOST, Clients, Program, Server, free_port, until


def refused(*arguments, environment=None, status=1):
    """Runs simp-server, which must end by itself; what it said."""
    done = subprocess.run(
        [BIN / "simp-server", *map(str, arguments)], capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == status, done
    assert "ready" not in done.stdout and "Fatal" not in done.stderr
    return done.stderr


def ports():
    return "--port", free_port(), "--udp-port", free_port(socket.SOCK_DGRAM)


def test_unknown_flags_and_values(tmp_path):
    assert "--port" in refused("--prot", "5", status=2)
    assert "65535" in refused("--port", "99999", status=2)
    assert "--port" in refused("--port", status=2)
    (tmp_path / "conf").write_text("port 7467\nprot 5\n")
    assert "conf:2" in refused("--config", tmp_path / "conf", status=2)
    assert "conf" in refused("--config", tmp_path / "none" / "conf", status=2)
    environment = os.environ | {"SIMP_PORT": "many"}
    assert "SIMP_PORT" in refused("--state", tmp_path, environment=environment, status=2)


def test_help_fits_a_screen():
    done = subprocess.run([BIN / "simp-server", "--help"], capture_output=True, text=True, timeout=20)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) <= 24 and max(map(len, lines)) <= 120


def test_only_loopback_in_clear_text_without_insecure(tmp_path):
    for address in ("0.0.0.0", "::"):
        said = refused("--state", tmp_path, "--tls", "off", "--listen", address, *ports(), status=2)
        assert "--insecure" in said


def test_a_port_in_use(tmp_path):
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]
        said = refused("--state", tmp_path, "--port", port, "--udp-port", free_port(socket.SOCK_DGRAM))
        assert str(port) in said and "in use" in said
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((HOST, 0))
        port = other.getsockname()[1]
        assert str(port) in refused("--state", tmp_path, "--port", free_port(), "--udp-port", port)


def test_no_redis(tmp_path):
    for where in (f"{HOST}:{free_port()}", f"unix:{tmp_path}/none"):
        assert "--redis" in refused("--state", tmp_path, "--redis", where, *ports())
    environment = os.environ | {"PATH": str(tmp_path)}
    assert "redis-server" in refused("--state", tmp_path / "s", *ports(), environment=environment)


def test_a_state_directory_that_cannot_be():
    assert "--state" in refused("--state", "/dev/null/state", *ports())


def test_a_signing_key_that_others_may_read(tmp_path):
    key = tmp_path / "signing.key"
    key.write_text("00" * 32)
    key.chmod(0o644)
    assert "chmod 600" in refused("--state", tmp_path, *ports())
    key.write_text("not a key")
    key.chmod(0o600)
    assert "signing.key" in refused("--state", tmp_path, *ports())


def test_the_signing_key_is_made_once_and_private(own_server):
    key = own_server.state / "signing.key"
    assert key.stat().st_mode & 0o777 == 0o600
    before = key.read_text()
    assert len(bytes.fromhex(before)) == 32
    assert own_server.stop() == 0
    own_server.start()
    assert key.read_text() == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_told_with_clients_connected(own_server, names, number):
    with Clients(own_server) as clients:
        for name in names("alice", "bob", "carol"):
            clients.online(name)
        clients.new(*names("dave")).connect()
        assert own_server.stop(number) == 0
    assert not (own_server.state / "redis" / "redis.sock").exists(), "the embedded Redis is stopped with it"


def test_nothing_secret_is_logged(own_server, names):
    alice, bob = names("alice", "bob")
    with Clients(own_server) as clients:
        a, b = clients.online(alice), clients.online(bob)
        sent = a.send(bob, "a body that is nobody's business")
        wait_all([a, b], lambda: sent.is_final)
        clients.new(alice).connect().close()
        own_server.stop()
        said = own_server.program.text
        assert alice in said and str(sent.message.message_id) in said, "debug names messages"
        for secret in ("nobody's business", a.token, a.token.split(".")[2], a.session.udp_secret.hex(),
                       own_server.secret.hex()):
            assert secret not in said


def test_settings_from_file_and_environment(tmp_path, names):
    """A flag goes before the environment, that before the file."""
    port, udp_port = free_port(), free_port(socket.SOCK_DGRAM)
    (tmp_path / "conf").write_text(f"# a comment\nport = 1\nudp-port {udp_port}\nstate {tmp_path}/s\n\n")
    program = Program(
        [BIN / "simp-server", "--config", tmp_path / "conf", "--port", port],
        env=os.environ | {"SIMP_PORT": "2"})
    try:
        line = program.wait_for(lambda: next((each for each in program.out if "ready" in each), None))
        assert f"{HOST}:{port}" in line and f"{HOST}:{udp_port}" in line
    finally:
        assert program.stop() == 0


def test_ipv6(tmp_path, names):
    alice, bob = names("alice", "bob")
    server = Server(tmp_path, host="::1").start()
    try:
        with Clients(server) as clients:
            a = clients.online(alice)
            b = clients.online(bob)
            assert (b.path_up.address, b.path_up.port) == b.udp.getsockname()[:2]
            until(lambda: server.endpoints(bob)[b.device]["udp"] == f"[::1]:{b.path_up.port}")
            sent = a.send(bob, "over IPv6")
            wait_all([a, b], lambda: sent.is_final)
            assert b.texts() == ["over IPv6"] and set(b.via.values()) == {"udp"}
    finally:
        server.clean_up()


def test_a_redis_beside_it_that_goes_and_comes_back(tmp_path, names):
    """Users who are on keep talking; a login that needs the store is told to come back."""
    alice, bob, carol = names("alice", "bob", "carol")
    port = free_port()

    def start_redis():
        return subprocess.Popen(
            ["redis-server", "--port", str(port), "--bind", HOST, "--save", "", "--dir", str(tmp_path)],
            stdout=subprocess.DEVNULL)

    def listens():
        with socket.socket() as probe:
            return probe.connect_ex((HOST, port)) == 0

    redis = start_redis()
    until(listens)
    server = Server(tmp_path / "s", redis=f"{HOST}:{port}").start()
    try:
        with Clients(server) as clients:
            a, b = clients.online(alice), clients.online(bob)
            redis.kill()
            redis.wait()
            sent = [a.send(bob, f"{number}") for number in range(20)]
            wait_all([a, b], lambda: all(each.is_final for each in sent))
            assert {each.state() for each in sent} == {DELIVERED}
            with pytest.raises(Refused) as raised:
                clients.new(carol).login(patient=False)
            assert raised.value.code == ERROR_UNAVAILABLE and raised.value.retry_after_ms > 0
            redis = start_redis()
            until(listens)

            c = clients.online(carol)
            greeting = a.send(carol, "welcome")
            wait_all([a, b, c], lambda: greeting.is_final)
            assert LATER not in greeting.states and c.texts() == ["welcome"]
    finally:
        server.stop()
        redis.kill()
        redis.wait()


@pytest.fixture
def teardown(tmp_path):
    """The environment in which a program says that OpenSSL is taken down."""
    source = pathlib.Path(__file__).parent / "teardown.c"
    library = tmp_path / "teardown.so"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, source, "-lcrypto"], check=True, timeout=60)
    return os.environ | {"LD_PRELOAD": str(library)}


def test_the_end_leaves_openssl_to_other_threads(tmp_path, teardown):
    """A program ends while other threads of it close connections: what these use must stand to the last."""
    server = Program([BIN / "simp-server", *map(str, ports()), "--state", tmp_path / "s", "--redis", "embedded"], env=teardown)
    try:
        line = server.wait_for(lambda: next((each for each in server.out if "ready" in each), None))
        address = line.split("TCP ")[1].split(",")[0]
        refused = Program(
            [BIN / "simp", "send", "bob", "text"], env=teardown | {"SIMP_SERVER": address, "SIMP_TOKEN": "t"})
        assert refused.finish(60) != 0
    finally:
        assert server.stop() == 0
    for each in (server, refused):
        assert "watching" in each.err and "torn down" not in each.err, each.text
